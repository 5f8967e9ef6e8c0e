"""Behind a real PgBouncer in transaction mode: the same promises, with more processes than connections."""

import asyncio
from collections import Counter

from pillarbox.database.engine import Database
from tests.outbox import STATEMENTS, OutboxBench, make_drain
from tests.pooler import pgbouncer

_DRAINER = """
import asyncio, sys
from pillarbox.database.engine import Database
from pillarbox.queue.verdict import Done
from tests.outbox import make_drain

async def main():
    database = Database(sys.argv[1], pooled=True)
    async def run(row):
        print(row.id)
        return Done()
    await make_drain(database, run).run_once()
    async with database.session() as session:
        pass
    await database.aclose()

asyncio.run(main())
"""


async def test_two_processes_behind_a_pooler_send_every_row_once(
    outbox: OutboxBench, database_url: str
) -> None:
    import sys

    ids = await outbox.fill(600)
    async with pgbouncer(database_url, pool_size=2) as pooled_url:
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", _DRAINER, pooled_url, stdout=asyncio.subprocess.PIPE
            )
            for _ in range(2)
        ]
        outputs = [(await process.communicate())[0].decode().split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert Counter(line for output in outputs for line in output) == Counter(str(id_) for id_ in ids)
    assert await outbox.counts() == {"sent": 600}


async def test_sessions_enqueue_and_list_through_a_pooler_from_many_tasks(
    outbox: OutboxBench, database_url: str
) -> None:
    async with pgbouncer(database_url, pool_size=2) as pooled_url:
        one, two = (Database(pooled_url, pooled=True) for _ in range(2))
        benches = [OutboxBench(database, outbox.lane) for database in (one, two)]
        await asyncio.gather(*(benches[number % 2].fill(5) for number in range(20)))
        await one.aclose()
        await two.aclose()
    assert await outbox.counts() == {"pending": 100}


async def test_behind_a_pooler_without_a_direct_url_nothing_listens_and_the_tick_finds_the_rows(
    outbox: OutboxBench, database_url: str
) -> None:
    from pillarbox.queue.verdict import Done

    async with pgbouncer(database_url) as pooled_url:
        database = Database(pooled_url, pooled=True)
        assert not database.listens
        assert Database(pooled_url, pooled=True, direct_url=database_url).listens

        async def run(_: object) -> Done:
            return Done()

        drain = make_drain(database, run, tick=0.2)
        stopping = asyncio.Event()
        loop = asyncio.ensure_future(drain.run(stopping))
        await outbox.fill(3)
        async with asyncio.timeout(10):
            while drain.status.sent < 3:
                await asyncio.sleep(0.02)
        stopping.set()
        await loop
        await database.aclose()


async def test_the_core_uses_nothing_that_outlives_a_transaction() -> None:
    for sql in (STATEMENTS.table.claim, STATEMENTS.settle_sql, STATEMENTS.reap_sql, STATEMENTS.next_due_sql):
        lowered = sql.lower()
        for session_thing in ("advisory", "listen", "prepare", "set ", "temp "):
            assert session_thing not in lowered.replace("set status", "")
