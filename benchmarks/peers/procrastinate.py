"""procrastinate over psycopg: tasks that do nothing, as many at once as a batch holds."""

import time

from procrastinate import App, PsycopgConnector


class ProcrastinateContestant:
    """A worker that ends when nothing is left. It fetches jobs one by one: there is no batch to set."""

    name = "procrastinate"

    def __init__(self, url: str, rounds: int) -> None:
        self.rounds = rounds
        self.app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=10))
        self._ran = 0

        @self.app.task(name="noop")
        async def noop() -> None:
            self._ran += 1

        self._noop = noop

    async def __aenter__(self) -> "ProcrastinateContestant":
        await self.app.open_async()
        if not await self.app.check_connection_async():
            await self.app.schema_manager.apply_schema_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.app.close_async()

    async def prepare(self, rows: int) -> None:
        """Defer the jobs."""
        run = self.app.connector.execute_query_async
        await run("TRUNCATE procrastinate_jobs CASCADE")
        await self._noop.batch_defer_async(*({} for _ in range(rows)))
        await run("ANALYZE procrastinate_jobs")
        self._ran = 0

    async def work(self, rows: int, batch: int) -> float:
        """Run the worker until it finds nothing more."""
        begun = time.perf_counter()
        await self.app.run_worker_async(wait=False, concurrency=batch, install_signal_handlers=False)
        seconds = time.perf_counter() - begun
        if self._ran != rows:
            raise RuntimeError(f"procrastinate ran {self._ran} of {rows} jobs")
        return rows / seconds
