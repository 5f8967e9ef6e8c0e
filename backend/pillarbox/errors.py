"""The one base of every error Pillarbox raises on purpose."""


class PillarboxError(Exception):
    """An error whose message tells the reader what to do about it."""


class ConfigurationError(PillarboxError):
    """A setting, or several together, that cannot work; nothing has been started."""
