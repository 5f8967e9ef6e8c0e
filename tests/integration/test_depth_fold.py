"""Folding the depth counters: exact through every transaction, and cheap behind the oldest one."""

import asyncio
import json

import pytest

from pillarbox.database.engine import Database
from pillarbox.notifications.outbox import OUTBOX
from pillarbox.queue.depth import Depth, DepthCounter
from tests.outbox import STATEMENTS, OutboxBench

COUNTER = DepthCounter(OUTBOX)


async def append_deltas(outbox: OutboxBench, count: int) -> None:
    """Many transactions that change nothing in sum."""
    await outbox.lane.fetch(
        "INSERT INTO queue.depth_deltas (queue, key, delta) "
        "SELECT 'outbox', 'sent', CASE n % 2 WHEN 0 THEN 1 ELSE -1 END FROM generate_series(1, $1::int) AS n",
        count,
    )


async def fold_until_short(outbox: OutboxBench) -> Depth:
    """Read, and thereby fold, until hardly anything is left to fold."""
    while True:
        depth = await COUNTER.read(outbox.lane)
        if (await outbox.lane.fetch("SELECT count(*) FROM queue.depth_deltas"))[0][0] <= 20:
            return depth


async def pages_read(outbox: OutboxBench) -> int:
    (answer,) = await outbox.lane.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {COUNTER.snapshot_sql}")
    plan = json.loads(answer[0])[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


async def test_folded_deltas_cost_a_reader_nothing_behind_a_transaction_that_keeps_them(
    outbox: OutboxBench, database: Database
) -> None:
    await outbox.fill(10)
    elsewhere = await database.connect_direct()
    async with elsewhere.transaction(isolation="repeatable_read"):
        await elsewhere.fetch("SELECT count(*) FROM accounts.people")
        await append_deltas(outbox, 30_000)
        depth = await fold_until_short(outbox)
        dead = await elsewhere.fetchval("SELECT pg_relation_size('queue.depth_deltas') / 8192")
        pages = await pages_read(outbox)
    await elsewhere.close()
    assert (depth.pending, depth.sent) == (10, 0)
    assert dead > 150, "the deleted deltas must still be there, or this shows nothing"
    assert pages < 50


async def test_what_was_under_way_while_others_were_folded_counts_once_it_commits(
    outbox: OutboxBench, database: Database
) -> None:
    await outbox.fill(10)
    elsewhere = await database.connect_direct()
    slow = elsewhere.transaction()
    await slow.start()
    await elsewhere.execute("DELETE FROM notifications.notification_deliveries WHERE status = 'pending'")
    for _ in range(3):
        await append_deltas(outbox, 300)
        assert (await fold_until_short(outbox)).pending == 10
    await slow.commit()
    await elsewhere.close()
    assert (await COUNTER.read(outbox.lane)).pending == 0
    await append_deltas(outbox, 300)
    assert (await fold_until_short(outbox)).pending == 0
    assert await outbox.fill(2)
    assert (await COUNTER.read(outbox.lane)).pending == 2


async def test_what_was_rolled_back_never_counts(outbox: OutboxBench, database: Database) -> None:
    await outbox.fill(10)
    elsewhere = await database.connect_direct()
    slow = elsewhere.transaction()
    await slow.start()
    await elsewhere.execute("DELETE FROM notifications.notification_deliveries")
    await append_deltas(outbox, 300)
    await fold_until_short(outbox)
    await slow.rollback()
    await elsewhere.close()
    await append_deltas(outbox, 300)
    assert (await fold_until_short(outbox)).pending == 10


async def test_a_fold_inside_a_longer_transaction_loses_nothing(
    outbox: OutboxBench, database: Database
) -> None:
    await outbox.fill(10)
    await append_deltas(outbox, 300)
    elsewhere = await database.connect_direct()
    async with elsewhere.transaction():
        await elsewhere.execute("DELETE FROM notifications.notification_deliveries")
        # Younger than this transaction and over before the fold looks.
        await append_deltas(outbox, 2)
        await elsewhere.execute(COUNTER._fold_sql.replace("$1", "20000"))
    await elsewhere.close()
    depth = await COUNTER.read(outbox.lane)
    assert (depth.pending, depth.enqueued_total) == (0, 10)


async def test_a_long_list_is_folded_piece_by_piece_and_stays_exact(outbox: OutboxBench) -> None:
    await outbox.fill(10)
    for _ in range(7):
        await append_deltas(outbox, 10_000)
    unfolded = []
    for _ in range(8):
        unfolded.append((await outbox.lane.fetch("SELECT count(*) FROM queue.depth_deltas"))[0][0])
        depth = await COUNTER.read(outbox.lane)
        assert (depth.pending, depth.sent) == (10, 0)
    assert unfolded[0] > unfolded[1] > unfolded[2] > 20_000
    assert unfolded[-1] <= 20


async def test_a_restored_database_whose_transactions_count_from_the_beginning_stays_exact(
    outbox: OutboxBench,
) -> None:
    await outbox.fill(10)
    await append_deltas(outbox, 300)
    await fold_until_short(outbox)
    await outbox.lane.fetch("UPDATE queue.depth_folds SET seen_below = 1000000000000, unseen = '{5, 6, 7}'")
    await outbox.claim(4)
    assert (await COUNTER.read(outbox.lane)).processing == 4
    await append_deltas(outbox, 300)
    depth = await fold_until_short(outbox)
    assert (depth.pending, depth.processing) == (6, 4)
    assert (await outbox.lane.fetch("SELECT seen_below FROM queue.depth_folds"))[0][0] < 1000000000000


@pytest.mark.parametrize("folders", [2, 5])
async def test_folders_at_once_fold_every_delta_once(
    outbox: OutboxBench, database: Database, folders: int
) -> None:
    await outbox.fill(300)

    async def fold_often() -> None:
        async with database.lane() as lane:
            for _ in range(40):
                await COUNTER.fold(lane)

    async def work() -> None:
        async with database.lane() as lane:
            while rows := await STATEMENTS.claim(lane, 2):
                await OutboxBench(database, lane).settle(rows, "done")

    await asyncio.gather(work(), work(), *(fold_often() for _ in range(folders)))
    depth = await COUNTER.read(outbox.lane)
    assert (depth.pending, depth.processing, depth.sent) == (0, 0, 300)
    assert (depth.enqueued_total, depth.settled_total) == (300, 300)
    assert (await outbox.lane.fetch("SELECT count(*) FROM queue.depth_folds"))[0][0] == 1
