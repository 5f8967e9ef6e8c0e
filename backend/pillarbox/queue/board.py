"""The newest value of each topic, for any number of readers who may be slow."""

import asyncio
from collections.abc import AsyncIterator

import msgspec


class Posted(msgspec.Struct, frozen=True):
    """One value on the board: `version` counts up over all topics, `data` is its JSON."""

    topic: str
    version: int
    data: bytes


class Board:
    """Latest value wins: a reader who lags skips what was replaced meanwhile and never queues.

    A value is encoded once, however many read it.
    """

    def __init__(self) -> None:
        self._posted: dict[str, Posted] = {}
        self._version = 0
        self._turned = asyncio.Event()
        self._readers = 0
        self.watched = asyncio.Event()

    def post(self, topic: str, value: object) -> None:
        """Replace the topic's value; a value equal to the present one wakes nobody."""
        data = msgspec.json.encode(value)
        present = self._posted.get(topic)
        if present is not None and present.data == data:
            return
        self._version += 1
        self._posted[topic] = Posted(topic, self._version, data)
        self._turn()

    async def follow(self, stopping: asyncio.Event, beat_seconds: float) -> AsyncIterator[list[Posted]]:
        """Everything on the board, then what changes; an empty list after `beat_seconds` of silence."""
        seen = 0
        self._readers += 1
        self.watched.set()
        try:
            while not stopping.is_set():
                turned = self._turned
                news = sorted(
                    (posted for posted in self._posted.values() if posted.version > seen),
                    key=lambda posted: posted.version,
                )
                if news:
                    seen = news[-1].version
                    yield news
                    continue
                try:
                    async with asyncio.timeout(beat_seconds):
                        await turned.wait()
                except TimeoutError:
                    yield []
        finally:
            self._readers -= 1
            if not self._readers:
                self.watched.clear()

    def release(self) -> None:
        """Wake every reader, so that each sees that the end has come."""
        self._turn()

    def _turn(self) -> None:
        turned, self._turned = self._turned, asyncio.Event()
        turned.set()
