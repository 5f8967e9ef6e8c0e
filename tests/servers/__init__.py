"""Loopback servers that answer, refuse, hang, drop and garble on request."""
