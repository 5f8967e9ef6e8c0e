"""The version that is installed."""

from importlib.metadata import version

VERSION = version("pillarbox")
