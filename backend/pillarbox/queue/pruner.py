"""Deletes finished rows past their retention, in small batches, now and then."""

import asyncio
from collections.abc import Mapping
from typing import Generic

import asyncpg
import structlog

from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.queue.claim import Statements
from pillarbox.queue.table import RowT
from pillarbox.queue.waiting import first_of

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 600.0
_BATCH = 1000


class Pruner(Generic[RowT]):
    """Keeps the history of one queue within its retention (status → seconds)."""

    def __init__(self, statements: Statements[RowT], lane: Lane, retention: Mapping[str, float]) -> None:
        self._statements = statements
        self._lane = lane
        self._retention = retention

    async def run(self, stopping: asyncio.Event) -> None:
        """Prune until stopping."""
        while not stopping.is_set():
            try:
                async with self._lane:
                    pruned = await self.prune(stopping)
                if pruned:
                    log.info("pruned finished rows", rows=pruned)
            except (DatabaseUnreachableError, asyncpg.PostgresError) as error:
                log.warning("nothing was pruned this time", error=str(error))
            await first_of(_EVERY_SECONDS, stopping)

    async def prune(self, stopping: asyncio.Event | None = None) -> int:
        """Prune everything past its retention; answers how many rows went."""
        total = 0
        for status, seconds in self._retention.items():
            pruned = _BATCH
            while pruned == _BATCH and not (stopping and stopping.is_set()):
                pruned = await self._statements.prune(self._lane, status, seconds, _BATCH)
                total += pruned
        return total
