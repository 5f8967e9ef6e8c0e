"""Notifications and background work on PostgreSQL alone."""
