"""People: who a notification is for."""
