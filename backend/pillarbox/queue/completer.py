"""Group commit of reports: settled at once while idle, together while busy, never held back to fill."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

import asyncpg
import structlog

from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.queue.claim import Report, Settled, Statements
from pillarbox.queue.table import RowT

log = structlog.get_logger(__name__)

_FLUSH_AT_MOST = 500
_RETRY_SECONDS = (0.05, 0.2, 0.5, 1.0, 2.0)

_REFUSED = {"22", "23"}
"""SQLSTATE classes that speak of the values: data exception, integrity constraint violation."""

OnLanded = Callable[[Sequence[Report], Sequence[Settled]], None]


class Completer:
    """Takes reports from many handlers and writes them with one statement at a time.

    While a statement is under way the next reports gather and go together in the following one. A
    database that cannot be reached costs time, not reports: they are kept and written when it is back.
    Writing a report twice is harmless, since the fence admits only the first.
    """

    def __init__(self, statements: Statements[RowT], lane: Lane, on_landed: OnLanded) -> None:
        self._statements = statements
        self._lane = lane
        self._on_landed = on_landed
        self._waiting: deque[Report] = deque()
        self._arrived = asyncio.Event()
        self._landed = asyncio.Condition()
        self._under_way = 0
        self._closing = False

    @property
    def unsettled(self) -> int:
        """Reports taken and not yet written."""
        return len(self._waiting) + self._under_way

    def report(self, report: Report) -> None:
        """Take a report; returns at once."""
        self._waiting.append(report)
        self._arrived.set()

    async def wait_below(self, unsettled: int) -> None:
        """Wait until fewer than `unsettled` reports are unwritten."""
        async with self._landed:
            await self._landed.wait_for(lambda: self.unsettled < unsettled)

    def close(self) -> None:
        """Let `run` end as soon as everything taken is written."""
        self._closing = True
        self._arrived.set()

    async def run(self) -> None:
        """Write reports as they come until closed and empty."""
        failures = 0
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _FLUSH_AT_MOST))]
                self._under_way = len(batch)
                try:
                    await self._write(batch)
                    failures = 0
                except DatabaseUnreachableError as error:
                    self._waiting.extendleft(reversed(batch))
                    if failures == 0:
                        log.warning("reports wait for the database", reports=self.unsettled, error=str(error))
                    delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
                    failures += 1
                    await asyncio.sleep(delay)
                finally:
                    self._under_way = 0
                    async with self._landed:
                        self._landed.notify_all()
            if self._closing:
                return

    async def _write(self, batch: Sequence[Report]) -> None:
        try:
            settled = await self._statements.settle(self._lane, batch)
        except (asyncpg.PostgresError, ValueError) as error:
            if (
                isinstance(error, asyncpg.PostgresError)
                and str(getattr(error, "sqlstate", ""))[:2] not in _REFUSED
            ):
                # A full server, a failover, a deadlock: its word on the moment, not on these reports.
                raise DatabaseUnreachableError(f"the database takes no reports now: {error}") from error
            if len(batch) > 1:
                # One report the server will not take must not hold up the others.
                for report in batch:
                    await self._write([report])
            else:
                log.exception("a report was refused by the database", row=str(batch[0].id), error=str(error))
            return
        self._on_landed(batch, settled)
