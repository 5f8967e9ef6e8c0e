"""Engine, sessions, the embedded server, migrations."""
