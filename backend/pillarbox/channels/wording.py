"""Error messages fit to be kept: one line, bounded, without what must stay secret."""

import re
from collections.abc import Iterable

LIMIT = 500
"""The longest error message a channel gives, in characters."""

_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]+")


def one_line(text: str, *, secrets: Iterable[str] = (), limit: int = LIMIT) -> str:
    """What another party said, made printable on one line; each of `secrets` is starred out."""
    for secret in secrets:
        text = text.replace(secret, "***")
    line = _BREAKS.sub(" ", text).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"
