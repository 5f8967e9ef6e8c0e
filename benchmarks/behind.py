"""The drain's pace while a transaction elsewhere stays open and keeps dead rows from being removed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from benchmarks.contest import Contestant, compete
from benchmarks.databases import Outbox, fresh_database
from benchmarks.drain import NAME, DrainContestant
from benchmarks.figures import Figure, beside
from benchmarks.peers.pgqueuer import PgqueuerContestant

_ROWS = 20_000
_ROUNDS = 2
_BATCH = 25


class _Behind:
    """A contestant that works while an older snapshot is held open."""

    def __init__(self, contestant: Contestant, url: str) -> None:
        self.name = f"{contestant.name}, behind"
        self.rounds = contestant.rounds
        self._contestant = contestant
        self._url = url

    async def prepare(self, rows: int) -> None:
        await self._contestant.prepare(rows)

    async def work(self, rows: int, batch: int) -> float:
        async with _open_snapshot(self._url):
            return await self._contestant.work(rows, batch)


async def figures(server_url: str) -> list[Figure]:
    """Ours behind a transaction beside ours without one, and beside pgqueuer behind one."""
    async with (
        fresh_database(server_url, "bench_behind") as url,
        fresh_database(server_url, "bench_pgqueuer") as pgqueuer_url,
        Outbox(url) as outbox,
        PgqueuerContestant(pgqueuer_url, _ROUNDS) as pgqueuer,
    ):
        free, behind = DrainContestant(outbox, _ROUNDS), _Behind(DrainContestant(outbox, _ROUNDS), url)
        paces = await compete([free, behind, _Behind(pgqueuer, pgqueuer_url)], _ROWS, _BATCH)
    ours = paces[behind.name]
    name = "settle_behind_long_transaction"
    return [
        beside(name, ours, "rows/s", f"{NAME}, no such transaction", paces[free.name]),
        beside(name, ours, "rows/s", f"{pgqueuer.name}, behind one too", paces[f"{pgqueuer.name}, behind"]),
    ]


@asynccontextmanager
async def _open_snapshot(url: str) -> AsyncGenerator[None]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await connection.fetch("SELECT count(*) FROM pg_class")
            yield
    finally:
        await connection.close()
