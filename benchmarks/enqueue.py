"""Enqueue, rows per second: many in one transaction, and one a transaction."""

import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.databases import Outbox, fresh_database
from benchmarks.figures import Figure, beside
from benchmarks.peers.pgqueuer import PgqueuerContestant

_BULK = 1_000
_BULKS = 15
_SINGLES = 400

Enqueue = Callable[[int], Awaitable[object]]


async def figures(server_url: str) -> list[Figure]:
    """`send()` with one delivery a notification, beside pgqueuer's `enqueue`."""
    async with (
        fresh_database(server_url, "bench_enqueue") as url,
        fresh_database(server_url, "bench_pgqueuer") as pgqueuer_url,
        Outbox(url) as outbox,
        PgqueuerContestant(pgqueuer_url, 1) as pgqueuer,
    ):
        drafts = await outbox.drafts(_BULK)

        async def ours(count: int) -> None:
            await outbox.send(drafts[:count])

        async def theirs(count: int) -> None:
            await pgqueuer.queries.enqueue(["noop"] * count, [b"Your export is ready"] * count, [0] * count)

        found: list[Figure] = []
        for name, rows, calls in (("enqueue_bulk", _BULK, _BULKS), ("enqueue_single", 1, _SINGLES)):
            seconds: tuple[list[float], list[float]] = ([], [])
            await ours(rows)
            await theirs(rows)
            for _ in range(calls):
                for enqueue, measured in zip((ours, theirs), seconds, strict=True):
                    measured.append(await _seconds(enqueue, rows))
            our_pace, their_pace = (rows / statistics.median(measured) for measured in seconds)
            found.append(beside(name, our_pace, "rows/s", "pgqueuer", their_pace))
        return found


async def _seconds(enqueue: Enqueue, rows: int) -> float:
    begun = time.perf_counter()
    await enqueue(rows)
    return time.perf_counter() - begun
