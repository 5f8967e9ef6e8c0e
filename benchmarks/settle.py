"""Claim → run → settle, rows per second, beside pgqueuer, procrastinate and pgbench."""

from contextlib import AsyncExitStack

from benchmarks.contest import Contestant, compete
from benchmarks.databases import Outbox, fresh_database
from benchmarks.drain import NAME, DrainContestant
from benchmarks.figures import Figure, beside
from benchmarks.peers.pgbench import PgbenchContestant, find_pgbench
from benchmarks.peers.pgqueuer import PgqueuerContestant
from benchmarks.peers.procrastinate import ProcrastinateContestant

_ROWS = 20_000
_ROUNDS = 5
_BATCHES = (25, 100)


async def figures(server_url: str) -> list[Figure]:
    """One figure a batch size and peer."""
    found: list[Figure] = []
    async with AsyncExitStack() as open_things:
        enter = open_things.enter_async_context
        outbox = await enter(Outbox(await enter(fresh_database(server_url, "bench_drain"))))
        pgqueuer_url = await enter(fresh_database(server_url, "bench_pgqueuer"))
        procrastinate_url = await enter(fresh_database(server_url, "bench_procrastinate"))
        contestants: list[Contestant] = [
            DrainContestant(outbox, _ROUNDS),
            await enter(PgqueuerContestant(pgqueuer_url, _ROUNDS)),
            await enter(PgqueuerContestant(pgqueuer_url, _ROUNDS, pool_size=4)),
            # Once: it takes half a minute.
            await enter(ProcrastinateContestant(procrastinate_url, 1)),
        ]
        if program := find_pgbench():
            contestants.append(PgbenchContestant(program, outbox, _ROUNDS))
        else:
            print("pgbench is not installed (Debian: postgresql-client); the limit is left out")
        for batch in _BATCHES:
            paces = await compete(contestants, _ROWS, batch)
            ours = paces.pop(NAME)
            found += [
                beside(f"settle_batch_{batch}", ours, "rows/s", peer, pace) for peer, pace in paces.items()
            ]
    return found
