"""Server-sent events from the board."""

import asyncio
from collections.abc import AsyncIterator

from litestar.response import Stream

from pillarbox.queue.board import Board

_BEAT_SECONDS = 15.0
_RETRY_MILLISECONDS = 2000


class EventStreams:
    """Opens one stream a reader. A stream holds no database connection and ends at once on shutdown."""

    def __init__(self, board: Board, stopping: asyncio.Event) -> None:
        self._board = board
        self._stopping = stopping

    def response(self) -> Stream:
        """A streaming answer with everything on the board, then what changes."""
        return Stream(
            self._events(),
            media_type="text/event-stream",
            headers={"cache-control": "no-cache, no-transform", "x-accel-buffering": "no"},
        )

    async def _events(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % _RETRY_MILLISECONDS
        async for news in self._board.follow(self._stopping, _BEAT_SECONDS):
            if news:
                yield b"".join(
                    b"id: %d\nevent: %s\ndata: %s\n\n" % (posted.version, posted.topic.encode(), posted.data)
                    for posted in news
                )
            else:
                yield b": still here\n\n"
