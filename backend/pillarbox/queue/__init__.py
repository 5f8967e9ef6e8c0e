"""The queue core: claim, settle, reap, release, drain, wake, depth. Knows no domain."""
