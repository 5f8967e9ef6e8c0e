"""The drain: everything due runs once, stops cleanly, survives its database, never holds a row too long."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from pillarbox.database.engine import Database
from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.notifications.outbox import ClaimedDelivery
from pillarbox.queue.drain import Drain, DrainBusyError
from pillarbox.queue.verdict import Done, Failed, Release, Retry, Verdict
from tests.outbox import STATEMENTS, OutboxBench, make_drain
from tests.silence import SilentProxy

MakeDrain = Callable[..., Drain[ClaimedDelivery]]


async def done(row: ClaimedDelivery) -> Verdict:
    return Done(str(row.id))


async def until(drain: Drain[ClaimedDelivery], condition: Callable[[], bool], seconds: float = 15) -> None:
    """Wait for a change of the drain after which the condition holds."""
    changed = asyncio.Event()
    drain._on_change = changed.set
    async with asyncio.timeout(seconds):
        while not condition():
            changed.clear()
            await changed.wait()


async def test_everything_due_is_sent_exactly_once(outbox: OutboxBench, drain_factory: MakeDrain) -> None:
    ids = await outbox.fill(333)
    ran: Counter[object] = Counter()

    async def run(row: ClaimedDelivery) -> Verdict:
        ran[row.id] += 1
        return Done()

    report = await drain_factory(run).run_once()
    assert ran == Counter(ids)
    assert (report.claimed, report.sent) == (333, 333)
    assert await outbox.counts() == {"sent": 333}


async def test_each_verdict_ends_where_it_belongs(outbox: OutboxBench, drain_factory: MakeDrain) -> None:
    verdicts = {
        "title 0": Done("r"),
        "title 1": Failed("smtp_550_5.1.1", "no such user"),
        "title 2": Retry("smtp_451", "later"),
        "title 3": Retry("http_429", "slow down", retry_after_seconds=600),
        "title 4": Release(delay_seconds=60),
    }
    ids = await outbox.fill(5)

    async def run(row: ClaimedDelivery) -> Verdict:
        return verdicts[row.title]

    report = await drain_factory(run).run_once()
    rows = [await outbox.row(id_) for id_ in ids]
    assert [row["status"] for row in rows] == ["sent", "failed", "pending", "pending", "pending"]
    assert 28 < rows[2]["wait"] <= 30
    assert 598 < rows[3]["wait"] <= 600
    assert (rows[4]["attempts"], rows[4]["max_attempts"]) == (1, 6)
    assert (report.sent, report.failed, report.retried, report.released) == (1, 1, 2, 1)


async def test_the_waits_follow_the_curve_and_the_fifth_failure_is_dead(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    (id_,) = await outbox.fill(1)

    async def run(_: ClaimedDelivery) -> Verdict:
        return Retry("smtp_451", "later")

    waits = []
    for _ in range(4):
        await drain_factory(run).run_once()
        waits.append(round((await outbox.row(id_))["wait"]))
        await outbox.make_due(id_)
    await drain_factory(run).run_once()
    assert waits == [30, 120, 480, 1920]
    assert (await outbox.row(id_))["status"] == "dead"


async def test_a_send_that_hangs_ends_at_its_deadline_and_holds_nobody_up(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    ids = await outbox.fill(60)
    finished_while_hanging = 0
    hanging = asyncio.Event()

    async def run(row: ClaimedDelivery) -> Verdict:
        nonlocal finished_while_hanging
        if row.id == ids[0]:
            hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                hanging.clear()
        await asyncio.sleep(0)
        finished_while_hanging += hanging.is_set()
        return Done()

    report = await drain_factory(run, send_timeout=1.0).run_once()
    row = await outbox.row(ids[0])
    assert (row["status"], row["error_code"]) == ("pending", "deadline_exceeded")
    assert report.sent == 59
    assert finished_while_hanging >= 55, "one hung send must not stop the others"


async def test_a_handler_that_raises_costs_an_attempt_and_nothing_else(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    ids = await outbox.fill(3)

    async def run(row: ClaimedDelivery) -> Verdict:
        if row.id == ids[1]:
            raise RuntimeError("unforeseen \0 trouble \ud800" + "!" * 1000)
        return Done()

    await drain_factory(run).run_once()
    row = await outbox.row(ids[1])
    assert await outbox.counts() == {"sent": 2, "pending": 1}
    assert row["error_code"] == "unexpected_error"
    assert "unforeseen" in row["error_message"]


async def test_a_row_that_cannot_end_inside_its_lease_is_not_begun(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    ids = await outbox.fill(2)
    begun = []

    async def run(row: ClaimedDelivery) -> Verdict:
        begun.append(row.id)
        await asyncio.sleep(0.3)
        return Done()

    # Two waves of one: after the first there is less lease left than a send may take.
    drain = drain_factory(
        run, batch_size=2, concurrency=1, claim_lease=1.0, send_timeout=0.9, settle_margin=0.0
    )
    await drain.run_once(limit=2)
    row = await outbox.row(ids[1])
    assert begun == [ids[0]]
    assert (row["status"], row["attempts"], row["max_attempts"]) == ("pending", 1, 6)


async def test_one_process_never_stacks_drains(outbox: OutboxBench, drain_factory: MakeDrain) -> None:
    await outbox.fill(1)
    begun, release = asyncio.Event(), asyncio.Event()

    async def run(_: ClaimedDelivery) -> Verdict:
        begun.set()
        await release.wait()
        return Done()

    drain = drain_factory(run)
    first = asyncio.ensure_future(drain.run_once())
    await begun.wait()
    with pytest.raises(DrainBusyError):
        await drain.run_once()
    release.set()
    assert (await first).sent == 1
    assert (await drain.run_once()).claimed == 0


async def test_a_limit_is_kept(outbox: OutboxBench, drain_factory: MakeDrain) -> None:
    await outbox.fill(50)
    assert (await drain_factory(done).run_once(limit=20)).sent == 20
    assert await outbox.counts() == {"pending": 30, "sent": 20}


async def test_the_loop_sends_at_a_wake_up_and_at_the_time_a_retry_falls_due(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    async def run(row: ClaimedDelivery) -> Verdict:
        return Done() if row.attempts > 1 else Retry("smtp_451", "later")

    stopping = asyncio.Event()
    drain = drain_factory(run, tick=3600.0, backoff_base=0.3)
    loop = asyncio.ensure_future(drain.run(stopping))
    await until(drain, lambda: drain.status.state == "idle")
    await outbox.fill(3)
    drain.wake.set()
    await until(drain, lambda: drain.status.sent == 3)
    stopping.set()
    await loop
    assert (drain.status.retried, drain.status.state) == (3, "off")


async def test_stopping_hands_back_what_was_not_begun_and_what_did_not_finish(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    ids = await outbox.fill(25)
    begun = []
    all_slots_busy = asyncio.Event()

    async def run(row: ClaimedDelivery) -> Verdict:
        begun.append(row.id)
        if len(begun) == 5:
            all_slots_busy.set()
        await asyncio.Event().wait()
        return Done()

    stopping = asyncio.Event()
    loop = asyncio.ensure_future(drain_factory(run).run(stopping))
    await all_slots_busy.wait()
    stopping.set()
    await loop
    rows = [await outbox.row(id_) for id_ in ids]
    assert {row["status"] for row in rows} == {"pending"}
    assert {row["max_attempts"] - row["attempts"] for row in rows} == {5}, "no attempt may be spent"
    assert len(begun) == 5


async def test_stopping_lets_a_send_that_is_almost_done_finish(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    (id_,) = await outbox.fill(1)
    begun, finish = asyncio.Event(), asyncio.Event()

    async def run(_: ClaimedDelivery) -> Verdict:
        begun.set()
        await finish.wait()
        return Done("in time")

    stopping = asyncio.Event()
    loop = asyncio.ensure_future(drain_factory(run, grace_seconds=5.0).run(stopping))
    await begun.wait()
    stopping.set()
    asyncio.get_running_loop().call_later(0.1, finish.set)
    await loop
    assert (await outbox.row(id_))["provider_message_id"] == "in time"


async def test_a_stale_report_is_counted_and_a_pause_is_kept(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    (id_,) = await outbox.fill(1)
    begun, finish = asyncio.Event(), asyncio.Event()

    async def run(row: ClaimedDelivery) -> Verdict:
        begun.set()
        await finish.wait()
        return Done("late")

    drain = drain_factory(run)
    draining = asyncio.ensure_future(drain.run_once())
    await begun.wait()
    await outbox.let_lease_lapse(id_)
    await outbox.reap()
    await outbox.settle(await outbox.claim(), "done", receipt="first")
    finish.set()
    assert (await draining).stale == 1
    assert (await outbox.row(id_))["provider_message_id"] == "first"


async def test_a_half_open_connection_stalls_nothing_for_good(outbox: OutboxBench, database_url: str) -> None:
    ids = await outbox.fill(1)
    async with SilentProxy(database_url) as proxy:
        far = Database(proxy.url, deadline_seconds=0.4)
        stopping = asyncio.Event()
        drain = make_drain(far, done, tick=0.1)
        loop = asyncio.ensure_future(drain.run(stopping))
        await until(drain, lambda: drain.status.sent == 1)
        proxy.fall_silent()
        ids += await outbox.fill(10)
        before = proxy.accepted
        async with asyncio.timeout(10):
            while proxy.accepted < before + 2:
                await asyncio.sleep(0.02)
        assert (await outbox.counts())["sent"] == 1
        proxy.speak()
        await until(drain, lambda: drain.status.sent == 11)
        stopping.set()
        await asyncio.wait_for(loop, 5)
        await far.aclose()
    assert await outbox.counts() == {"sent": 11}


async def test_reports_gathered_during_silence_are_written_when_it_ends(
    outbox: OutboxBench, database_url: str
) -> None:
    await outbox.fill(5)
    async with SilentProxy(database_url) as proxy:
        far = Database(proxy.url, deadline_seconds=0.4)
        ran = 0

        async def run(_: ClaimedDelivery) -> Verdict:
            nonlocal ran
            ran += 1
            if ran == 5:
                proxy.fall_silent()
                asyncio.get_running_loop().call_later(1.0, proxy.speak)
            return Done()

        report = await make_drain(far, run).run_once(limit=5)
        await far.aclose()
    assert await outbox.counts() == {"sent": 5}
    assert ran == 5, "what was sent must not be sent again because the database was away"
    assert report.sent == 5


async def test_a_process_is_stoppable_while_its_database_is_silent(
    outbox: OutboxBench, database_url: str
) -> None:
    async with SilentProxy(database_url) as proxy:
        far = Database(proxy.url, deadline_seconds=60)
        stopping = asyncio.Event()
        drain = make_drain(far, done, tick=0.05)
        loop = asyncio.ensure_future(drain.run(stopping))
        await until(drain, lambda: drain.status.state == "idle")
        proxy.fall_silent()
        await outbox.fill(1)
        drain.wake.set()
        await asyncio.sleep(0.2)
        stopping.set()
        await asyncio.wait_for(loop, 3)
        await far.aclose()


async def test_a_lane_throws_a_silent_connection_away_and_opens_another(database_url: str) -> None:
    async with SilentProxy(database_url) as proxy:
        far = Database(proxy.url, deadline_seconds=0.3)
        async with far.lane() as lane:
            assert (await lane.fetch("SELECT 1"))[0][0] == 1
            proxy.fall_silent()
            with pytest.raises(DatabaseUnreachableError, match="did not answer"):
                await lane.fetch("SELECT 2")
            proxy.speak()
            assert (await lane.fetch("SELECT 3"))[0][0] == 3
            assert proxy.accepted >= 2
        await far.aclose()


async def test_claims_cancelled_at_any_point_lose_no_row_and_poison_no_connection(
    database: Database, lane: Lane, outbox: OutboxBench
) -> None:
    ids = await outbox.fill(200)
    async with database.lane() as claimer:
        for step in range(200):
            claim = asyncio.ensure_future(STATEMENTS.claim(claimer, 1))
            asyncio.get_running_loop().call_later(step * 0.00002, claim.cancel)
            await asyncio.gather(claim, return_exceptions=True)
            assert (await claimer.fetch("SELECT $1::int", step))[0][0] == step
    await database.engine.dispose()
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with asyncio.timeout(5):
        while (await lane.fetch(others))[0][0]:
            await asyncio.sleep(0.02)
    await outbox.let_lease_lapse(*ids)
    await outbox.reap()
    assert await outbox.counts() == {"pending": 200}


async def test_the_drain_survives_a_restart_of_the_database(
    outbox: OutboxBench, drain_factory: MakeDrain
) -> None:
    stopping = asyncio.Event()
    drain = drain_factory(done, tick=0.1)
    loop = asyncio.ensure_future(drain.run(stopping))
    await outbox.fill(5)
    drain.wake.set()
    await until(drain, lambda: drain.status.sent == 5)
    # What a restart looks like from here: every connection is ended by the server.
    other = await outbox.database.connect_direct()
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await other.close()
    outbox.lane.discard()
    await outbox.database.engine.dispose()
    await outbox.fill(5)
    drain.wake.set()
    await until(drain, lambda: drain.status.sent == 10)
    stopping.set()
    await loop
