"""Depth: exact after anything that can happen to rows, transactional, and cheap."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillarbox.database.engine import Database
from pillarbox.notifications.outbox import OUTBOX
from pillarbox.queue.board import Board
from pillarbox.queue.depth import Depth, DepthCounter
from pillarbox.queue.sampler import DepthSampler
from tests.outbox import STATEMENTS, OutboxBench

COUNTER = DepthCounter(OUTBOX)


async def true_depth(outbox: OutboxBench) -> tuple[int, ...]:
    """The same numbers, counted over the rows themselves."""
    record = (
        await outbox.lane.fetch(
            "SELECT "
            + ", ".join(
                f"count(*) FILTER (WHERE status = '{status}')"
                for status in ("pending", "processing", "sent", "failed", "dead")
            )
            + ", count(*) FILTER (WHERE status = 'pending' AND attempts > 0 AND next_attempt_at > now())"
            " FROM notifications.notification_deliveries"
        )
    )[0]
    return tuple(record)


def shown(depth: Depth) -> tuple[int, ...]:
    return (depth.pending, depth.processing, depth.sent, depth.failed, depth.dead, depth.retrying)


async def test_an_empty_outbox_is_all_zeros(outbox: OutboxBench) -> None:
    depth = await COUNTER.read(outbox.lane)
    assert shown(depth) == (0, 0, 0, 0, 0, 0)
    assert depth.oldest_due_age_seconds is None


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), st.integers(1, 30)),
        st.tuples(st.just("claim"), st.integers(1, 20)),
        st.tuples(st.sampled_from(["done", "failed", "retry", "release"]), st.integers(1, 20)),
        st.tuples(st.sampled_from(["reap", "retry by hand", "delete", "make due", "truncate"]), st.just(0)),
    ),
    min_size=4,
    max_size=20,
)


@given(steps=_STEPS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_depth_equals_a_full_count_after_any_history(
    database: Database, steps: list[tuple[str, int]]
) -> None:
    async with database.lane() as lane:
        outbox = OutboxBench(database, lane)
        await lane.fetch("TRUNCATE notifications.notifications CASCADE")
        held = []
        for step, size in steps:
            ids = [
                r[0]
                for r in await lane.fetch("SELECT id FROM notifications.notification_deliveries ORDER BY id")
            ]
            match step:
                case "fill":
                    await outbox.fill(size, budget=2)
                case "claim":
                    held += await outbox.claim(size)
                case "done" | "failed" | "retry" | "release":
                    await outbox.settle(held[:size], step, delay_seconds=3600.0)
                    held = held[size:]
                case "reap":
                    await outbox.let_lease_lapse(*ids)
                    await outbox.reap()
                case "retry by hand":
                    await STATEMENTS.retry_by_hand(lane, ids)
                case "make due":
                    await outbox.make_due(*ids[::2])
                case "delete":
                    await lane.fetch(
                        "DELETE FROM notifications.notification_deliveries WHERE id = ANY ($1)", ids[::3]
                    )
                case _:
                    await lane.fetch("TRUNCATE notifications.notifications CASCADE")
            assert shown(await COUNTER.read(lane)) == await true_depth(outbox)


async def test_depth_is_transactional(outbox: OutboxBench, database: Database) -> None:
    other = await database.connect_direct()
    transaction = other.transaction()
    await transaction.start()
    await other.execute(
        "INSERT INTO accounts.people (id, name) VALUES (gen_random_uuid(), 'x');"
        "INSERT INTO notifications.notifications (id, person_id, type, title, body)"
        " SELECT gen_random_uuid(), id, 'system', 't', 'b' FROM accounts.people;"
        "INSERT INTO notifications.notification_deliveries (id, notification_id, channel, address, max_attempts, budget)"
        " SELECT gen_random_uuid(), id, 'email', 'a@b', 5, 5 FROM notifications.notifications"
    )
    assert (await COUNTER.read(outbox.lane)).pending == 0
    await transaction.commit()
    assert (await COUNTER.read(outbox.lane)).pending == 1
    await other.close()


async def test_a_rollback_leaves_no_trace(outbox: OutboxBench, database: Database) -> None:
    await outbox.fill(3)
    other = await database.connect_direct()
    transaction = other.transaction()
    await transaction.start()
    await other.execute("DELETE FROM notifications.notification_deliveries")
    await transaction.rollback()
    await other.close()
    assert (await COUNTER.read(outbox.lane)).pending == 3


async def test_depth_stays_exact_while_many_write_read_and_fold_at_once(
    outbox: OutboxBench, database: Database
) -> None:
    total = 1500
    await outbox.fill(total)

    async def work() -> None:
        async with database.lane() as lane:
            while rows := await STATEMENTS.claim(lane, 3):
                await OutboxBench(database, lane).settle(rows, "done")

    async def watch(done: asyncio.Event) -> None:
        async with database.lane() as lane:
            while not done.is_set():
                depth = await COUNTER.read(lane)
                assert depth.pending + depth.processing + depth.sent == total, (
                    "a row was counted twice or not at all"
                )

    done = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watchers = [group.create_task(watch(done)) for _ in range(3)]
        await asyncio.gather(*(work() for _ in range(4)))
        done.set()
        await asyncio.gather(*watchers)
    await COUNTER.read(outbox.lane)
    left = (await outbox.lane.fetch("SELECT count(*) FROM queue.depth_deltas"))[0][0]
    assert left <= 210, "the counters must be folded, or reading them would grow with history"


async def test_totals_count_up_through_retries_prunes_and_replays(outbox: OutboxBench) -> None:
    await outbox.fill(4)
    rows = await outbox.claim()
    await outbox.settle(rows[:2], "done")
    await outbox.settle(rows[2:], "failed")
    await STATEMENTS.retry_by_hand(outbox.lane, [row.id for row in rows[2:]])
    await outbox.settle(await outbox.claim(), "done")
    await outbox.lane.fetch("DELETE FROM notifications.notification_deliveries")
    depth = await COUNTER.read(outbox.lane)
    assert (depth.enqueued_total, depth.settled_total, depth.sent) == (4, 6, 0)


async def test_the_oldest_due_age_is_that_of_the_row_longest_overdue(outbox: OutboxBench) -> None:
    ids = await outbox.fill(3)
    move = "UPDATE notifications.notification_deliveries SET next_attempt_at = now() + make_interval(secs => $2) WHERE id = $1"
    for id_, seconds in zip(ids, (-90.0, -30.0, 600.0), strict=True):
        await outbox.lane.fetch(move, id_, seconds)
    age = (await COUNTER.read(outbox.lane)).oldest_due_age_seconds
    assert age is not None
    assert 90 <= age < 95


async def test_the_depth_never_scans_the_history(outbox: OutboxBench) -> None:
    await outbox.fill(3000)
    await outbox.lane.fetch("UPDATE notifications.notification_deliveries SET status = 'sent'")
    await outbox.lane.fetch("ANALYZE notifications.notification_deliveries")
    await outbox.lane.fetch("ANALYZE queue.depth_deltas")
    plan = "\n".join(r[0] for r in await outbox.lane.fetch("EXPLAIN " + COUNTER.snapshot_sql))
    assert "Seq Scan on notification_deliveries" not in plan


async def test_one_sampler_serves_every_reader_and_rests_when_nobody_reads(
    outbox: OutboxBench, database: Database
) -> None:
    board, stopping = Board(), asyncio.Event()
    lane = database.lane()
    reads = 0

    class Counted(DepthCounter):
        async def read(self, lane: object) -> Depth:
            nonlocal reads
            reads += 1
            return await super().read(lane)  # type: ignore[arg-type]

    sampler = DepthSampler(Counted(OUTBOX), lane, board)
    sampling = asyncio.ensure_future(sampler.run(stopping))
    await asyncio.sleep(0.1)
    assert reads == 0, "nobody reads, so nothing is sampled"

    async def first_pending(expected: int) -> None:
        async for news in board.follow(stopping, 15):
            for posted in news:
                if b'"pending":%d,' % expected in posted.data:
                    return

    await outbox.fill(7)
    async with asyncio.timeout(5):
        await asyncio.gather(*(first_pending(7) for _ in range(500)))
    assert reads < 10
    stopping.set()
    board.release()
    await sampling


async def test_a_reader_who_lags_gets_the_newest_value_and_no_backlog() -> None:
    board, stopping = Board(), asyncio.Event()
    follow = board.follow(stopping, 15)
    board.post("depth", 0)
    assert [p.data for p in await anext(follow)] == [b"0"]
    for value in range(1, 1000):
        board.post("depth", value)
    board.post("drain", "x")
    assert [(p.topic, p.data) for p in await anext(follow)] == [("depth", b"999"), ("drain", b'"x"')]
    silence = asyncio.ensure_future(anext(follow))
    board.post("drain", "x")
    await asyncio.sleep(0.01)
    assert not silence.done(), "an equal value wakes nobody"
    stopping.set()
    board.release()
    async with asyncio.timeout(1):
        (ended,) = await asyncio.gather(silence, return_exceptions=True)
    assert isinstance(ended, StopAsyncIteration)


async def test_the_counters_stay_short_though_nobody_watches(outbox: OutboxBench, database: Database) -> None:
    await outbox.fill(300)
    while rows := await outbox.claim(1):
        await outbox.settle(rows, "done")
    count = "SELECT count(*) FROM queue.depth_deltas"
    assert (await outbox.lane.fetch(count))[0][0] > 500
    stopping = asyncio.Event()
    sampling = asyncio.ensure_future(
        DepthSampler(DepthCounter(OUTBOX), database.lane(), Board()).run(stopping)
    )
    async with asyncio.timeout(10):
        while (await outbox.lane.fetch(count))[0][0] > 210:
            await asyncio.sleep(0.02)
    stopping.set()
    await sampling
