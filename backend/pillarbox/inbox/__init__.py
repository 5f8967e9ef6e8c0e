"""The built-in inbox: a real SMTP server and webhook receiver, so that sent can be seen."""
