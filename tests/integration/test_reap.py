"""The reaper: nothing within the lease, everything past it, dead when the budget is spent."""

import asyncio

from pillarbox.database.engine import Database
from pillarbox.queue.claim import Report
from tests.outbox import STATEMENTS, OutboxBench


async def test_a_row_within_its_lease_is_left_alone(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    await outbox.claim()
    assert await outbox.reap() == []
    assert (await outbox.row(id_))["status"] == "processing"


async def test_a_row_past_its_lease_is_requeued_at_once_with_its_attempts_as_they_were(
    outbox: OutboxBench,
) -> None:
    (id_,) = await outbox.fill(1)
    await outbox.claim()
    await outbox.let_lease_lapse(id_)
    assert [(row.id, row.status) for row in await outbox.reap()] == [(id_, "pending")]
    row = await outbox.row(id_)
    assert (row["attempts"], row["error_code"]) == (1, "lease_lapsed")
    (again,) = await outbox.claim()
    assert again.attempts == 2


async def test_a_handler_that_kills_its_process_every_time_ends_dead(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    for _ in range(5):
        assert len(await outbox.claim()) == 1
        await outbox.let_lease_lapse(id_)
        await outbox.reap()
    assert (await outbox.row(id_))["status"] == "dead"
    assert await outbox.claim() == []


async def test_a_row_without_a_claim_time_counts_from_its_creation(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    await outbox.lane.fetch(
        "UPDATE notifications.notification_deliveries SET status = 'processing', attempts = 1, "
        "attempted_at = NULL, created_at = now() - interval '301 seconds' WHERE id = $1",
        id_,
    )
    assert len(await outbox.reap()) == 1


async def test_the_reaper_reads_its_partial_index(outbox: OutboxBench) -> None:
    await outbox.fill(2000)
    await outbox.lane.fetch("UPDATE notifications.notification_deliveries SET status = 'sent'")
    await outbox.lane.fetch("ANALYZE notifications.notification_deliveries")
    await outbox.lane.fetch("SET plan_cache_mode = force_generic_plan")
    await outbox.lane.fetch(f"PREPARE reap AS {STATEMENTS.reap_sql}")
    plan = "\n".join(record[0] for record in await outbox.lane.fetch("EXPLAIN EXECUTE reap(300, 1000)"))
    assert "notification_deliveries_leased_idx" in plan


async def test_two_reapers_and_a_settle_at_once_share_the_rows_without_a_double(
    outbox: OutboxBench, database: Database
) -> None:
    ids = await outbox.fill(300)
    rows = await outbox.claim(300)
    await outbox.let_lease_lapse(*ids)
    async with database.lane() as one, database.lane() as two, database.lane() as three:
        reports = [Report(row.id, row.attempts, "done") for row in rows]
        reaped, reaped_too, settled = await asyncio.gather(
            STATEMENTS.reap(one, 300), STATEMENTS.reap(two, 300), STATEMENTS.settle(three, reports)
        )
    assert not {row.id for row in reaped} & {row.id for row in reaped_too}
    assert {row.id for row in settled} == set(ids)
    assert await outbox.counts() == {"sent": 300}


async def test_batches_that_settle_reap_retry_and_prune_the_same_rows_never_deadlock(
    outbox: OutboxBench, database: Database
) -> None:
    ids = await outbox.fill(200, budget=1)
    rows = await outbox.claim(200)
    await outbox.let_lease_lapse(*ids)
    forward = [Report(row.id, row.attempts, "retry") for row in rows]
    deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"

    async def settle_often(reports: list[Report]) -> None:
        async with database.lane() as lane:
            for turn in range(30):
                await STATEMENTS.settle(lane, reports[turn:] + reports[:turn])

    async def upset_often() -> None:
        async with database.lane() as lane:
            for _ in range(30):
                await STATEMENTS.reap(lane, 0.0)
                await STATEMENTS.prune(lane, "dead", 0.0, 3)
                await STATEMENTS.retry_by_hand(lane, ids[::-1])
                await STATEMENTS.claim(lane, 7)

    await asyncio.gather(
        settle_often(forward),
        settle_often(forward[::-1]),
        settle_often(forward[100:] + forward[:100]),
        upset_often(),
    )
    assert (await outbox.lane.fetch(deadlocks))[0][0] == 0
    assert 0 < sum((await outbox.counts()).values()) < 200, "prune took part"


async def test_pruning_takes_only_finished_rows_past_their_retention(outbox: OutboxBench) -> None:
    ids = await outbox.fill(4)
    await outbox.settle(await outbox.claim(2), "done")
    sent = [id_ for id_ in ids if (await outbox.row(id_))["status"] == "sent"]
    assert await STATEMENTS.prune(outbox.lane, "sent", 60.0, 10) == 0
    # Ids carry their time of creation, so an old row needs an old id too.
    await outbox.lane.fetch(
        "UPDATE notifications.notification_deliveries "
        "SET id = ('00000000' || substr(id::text, 9))::uuid, sent_at = sent_at - interval '1 hour' WHERE id = $1",
        sent[0],
    )
    assert await STATEMENTS.prune(outbox.lane, "sent", 60.0, 10) == 1
    assert await outbox.counts() == {"pending": 2, "sent": 1}
