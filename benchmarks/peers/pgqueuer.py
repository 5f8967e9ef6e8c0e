"""pgqueuer over asyncpg: jobs with an entrypoint that does nothing."""

import time

import asyncpg
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries


class PgqueuerContestant:
    """A queue manager over one connection, as in its quick start, or over a pool where one is asked for."""

    def __init__(self, url: str, rounds: int, *, pool_size: int | None = None) -> None:
        self.name = "pgqueuer" if pool_size is None else f"pgqueuer, pool of {pool_size}"
        self.rounds = rounds
        self._url = url
        self._pool_size = pool_size

    async def __aenter__(self) -> "PgqueuerContestant":
        self._connection = await asyncpg.connect(self._url)
        self.queries = Queries.from_asyncpg_connection(self._connection)
        if not await self.queries.schema_is_installed():
            await self.queries.install()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    async def prepare(self, rows: int) -> None:
        """Enqueue the jobs."""
        await self._connection.execute("TRUNCATE pgqueuer, pgqueuer_log")
        await self.queries.enqueue(["noop"] * rows, [b"Your export is ready"] * rows, [0] * rows)
        for table in ("pgqueuer", "pgqueuer_log"):
            await self._connection.execute(f"VACUUM ANALYZE {table}")

    async def work(self, rows: int, batch: int) -> float:
        """Dequeue, run and complete all jobs; the last one ends the manager, which then flushes."""
        if self._pool_size is None:
            connection = await asyncpg.connect(self._url)
            manager = QueueManager(Queries.from_asyncpg_connection(connection))
        else:
            connection = await asyncpg.create_pool(
                self._url, min_size=self._pool_size, max_size=self._pool_size
            )
            manager = QueueManager(Queries.from_asyncpg_pool(connection))
        ran = 0

        @manager.entrypoint("noop")
        async def noop(_: Job) -> None:
            nonlocal ran
            ran += 1
            if ran == rows:
                manager.shutdown.set()

        try:
            begun = time.perf_counter()
            await manager.run(batch_size=batch)
            seconds = time.perf_counter() - begun
        finally:
            await connection.close()
        left = await self._connection.fetchval("SELECT count(*) FROM pgqueuer")
        if left or ran != rows:
            raise RuntimeError(f"pgqueuer ran {ran} of {rows} jobs and left {left}")
        return rows / seconds
