"""Notifications: what is sent to whom, and the outbox as a consumer of the queue core."""
