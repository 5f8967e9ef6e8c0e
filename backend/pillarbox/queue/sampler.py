"""One sampler a process: reads the depth while anybody watches, and posts it for all of them."""

import asyncio
from collections import deque

import asyncpg
import structlog

from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.queue.board import Board
from pillarbox.queue.depth import Depth, DepthCounter
from pillarbox.queue.waiting import first_of

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 1.0
_AT_MOST_EVERY_SECONDS = 0.2
_RATE_WINDOW_SECONDS = 5.0
_UNWATCHED_EVERY_SECONDS = 5.0


class DepthReading(Depth, frozen=True, kw_only=True, rename="camel"):
    """A depth with its place in this process's sequence and the rates of the last seconds."""

    sequence: int
    enqueued_per_second: float
    settled_per_second: float


class DepthSampler:
    """Samples about once a second while watched, sooner when nudged, seldom while nobody looks."""

    TOPIC = "depth"

    def __init__(
        self,
        counter: DepthCounter,
        lane: Lane,
        board: Board,
        *,
        unwatched_seconds: float = _UNWATCHED_EVERY_SECONDS,
    ) -> None:
        self._unwatched_seconds = unwatched_seconds
        self._counter = counter
        self._lane = lane
        self._board = board
        self._nudged = asyncio.Event()
        self._reading = asyncio.Lock()
        self._window: deque[Depth] = deque()
        self._sequence = 0

    def nudge(self) -> None:
        """Something changed here: sample soon."""
        self._nudged.set()

    async def read(self) -> DepthReading:
        """A fresh reading.

        Raises:
            DatabaseUnreachableError: the database did not answer.
        """
        async with self._reading:
            depth = await self._counter.read(self._lane)
            self._sequence += 1
            enqueued, settled = self._rates(depth)
            return DepthReading(
                sequence=self._sequence,
                enqueued_per_second=enqueued,
                settled_per_second=settled,
                **{name: getattr(depth, name) for name in Depth.__struct_fields__},
            )

    async def fold(self) -> None:
        """Fold the counters, for a process that ends before it would sample."""
        async with self._lane:
            await self._counter.fold(self._lane)

    async def run(self, stopping: asyncio.Event) -> None:
        """Sample until stopping."""
        failing = False
        async with self._lane:
            while not stopping.is_set():
                # Unwatched it still reads now and then: a read is what folds the counters.
                await first_of(self._unwatched_seconds, self._board.watched, stopping)
                if stopping.is_set():
                    return
                self._nudged.clear()
                try:
                    self._board.post(self.TOPIC, await self.read())
                    failing = False
                except (DatabaseUnreachableError, asyncpg.PostgresError) as error:
                    if not failing:
                        log.warning("no depth for now", error=str(error))
                    failing = True
                await first_of(_AT_MOST_EVERY_SECONDS, stopping)
                await first_of(_EVERY_SECONDS - _AT_MOST_EVERY_SECONDS, self._nudged, stopping)

    def _rates(self, depth: Depth) -> tuple[float, float]:
        window = self._window
        window.append(depth)
        while (depth.at - window[0].at).total_seconds() > _RATE_WINDOW_SECONDS and len(window) > 2:
            window.popleft()
        first = window[0]
        seconds = (depth.at - first.at).total_seconds()
        if seconds <= 0:
            return 0.0, 0.0
        return (
            max(0.0, (depth.enqueued_total - first.enqueued_total) / seconds),
            max(0.0, (depth.settled_total - first.settled_total) / seconds),
        )
