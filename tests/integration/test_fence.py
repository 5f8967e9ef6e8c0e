"""The fence: a report lands only if nobody re-claimed the row; the budget never goes down."""

from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pillarbox.database.engine import Database
from pillarbox.queue.claim import Outcome, Report
from tests.outbox import STATEMENTS, OutboxBench

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


async def test_a_done_row_is_sent_with_its_receipt(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    settled = await outbox.settle(await outbox.claim(), "done", receipt="provider-1")
    row = await outbox.row(id_)
    assert [(s.id, s.status) for s in settled] == [(id_, "sent")]
    assert (row["status"], row["provider_message_id"]) == ("sent", "provider-1")
    assert row["sent_at"] is not None


async def test_a_retry_waits_its_delay_on_the_database_clock(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    await outbox.settle(
        await outbox.claim(), "retry", delay_seconds=30.0, error_code="smtp_451", error_message="later"
    )
    row = await outbox.row(id_)
    assert row["status"] == "pending"
    assert 29 < row["wait"] <= 30
    assert (row["error_code"], row["error_message"]) == ("smtp_451", "later")
    assert await outbox.claim() == []


async def test_the_fifth_failed_attempt_is_dead_and_a_permanent_one_is_failed(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    for attempt in range(1, 6):
        (row,) = await outbox.claim()
        assert row.attempts == attempt
        await outbox.settle([row], "retry", delay_seconds=0.0, error_code="smtp_451")
    assert (await outbox.row(id_))["status"] == "dead"
    (bad,) = await outbox.fill(1)
    await outbox.settle(await outbox.claim(), "failed", error_code="smtp_550_5.1.1")
    assert (await outbox.row(bad))["status"] == "failed"


async def test_a_released_row_comes_back_with_its_budget_whole(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    for spent in range(1, 8):
        (row,) = await outbox.claim()
        assert (row.attempts, row.max_attempts) == (spent, spent + 4)
        await outbox.settle([row], "release")
    assert (await outbox.row(id_))["status"] == "pending"


async def test_a_stale_report_is_discarded_after_a_reclaim(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    first = await outbox.claim()
    await outbox.let_lease_lapse(id_)
    await outbox.reap()
    second = await outbox.claim()
    for outcome in OUTCOMES:
        assert await outbox.settle(first, outcome, error_code="late") == []
    assert (await outbox.row(id_))["status"] == "processing"
    assert len(await outbox.settle(second, "done")) == 1


async def test_a_late_success_after_a_reap_still_lands(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1)
    first = await outbox.claim()
    await outbox.let_lease_lapse(id_)
    await outbox.reap()
    assert len(await outbox.settle(first, "done")) == 1
    assert (await outbox.row(id_))["status"] == "sent"
    assert await outbox.claim() == []


async def test_a_success_after_the_reaper_dead_lettered_the_row_is_recorded_as_sent(
    outbox: OutboxBench,
) -> None:
    (id_,) = await outbox.fill(1, budget=1)
    first = await outbox.claim()
    await outbox.let_lease_lapse(id_)
    assert [row.status for row in await outbox.reap()] == ["dead"]
    await outbox.settle(first, "done", receipt="r")
    row = await outbox.row(id_)
    assert row["status"] == "sent"
    assert row["error_code"] == "lease_lapsed", "the row must still tell that its lease lapsed"


@pytest.mark.parametrize("outcome", ["failed", "retry", "release"])
async def test_only_a_success_revives_a_dead_row(outbox: OutboxBench, outcome: Outcome) -> None:
    (id_,) = await outbox.fill(1, budget=1)
    first = await outbox.claim()
    await outbox.let_lease_lapse(id_)
    await outbox.reap()
    assert await outbox.settle(first, outcome) == []
    assert (await outbox.row(id_))["status"] == "dead"


async def test_a_retry_by_hand_does_not_let_an_old_report_match_again(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1, budget=1)
    first = await outbox.claim()
    await outbox.let_lease_lapse(id_)
    await outbox.reap()
    await STATEMENTS.retry_by_hand(outbox.lane, [id_])
    (second,) = await outbox.claim()
    assert (second.attempts, second.max_attempts, second.budget) == (2, 2, 1)
    assert await outbox.settle(first, "done") == []
    assert (await outbox.row(id_))["status"] == "processing"


async def test_a_retry_by_hand_gives_a_whole_fresh_budget(outbox: OutboxBench) -> None:
    (id_,) = await outbox.fill(1, budget=2)
    await outbox.settle(await outbox.claim(), "failed")
    await STATEMENTS.retry_by_hand(outbox.lane, [id_])
    for _ in range(2):
        assert (await outbox.row(id_))["status"] == "pending"
        await outbox.settle(await outbox.claim(), "retry")
    assert (await outbox.row(id_))["status"] == "dead"


@pytest.mark.parametrize("status", ["pending", "processing", "sent"])
async def test_a_retry_by_hand_leaves_rows_alone_that_are_not_failed_or_dead(
    outbox: OutboxBench, status: str
) -> None:
    (id_,) = await outbox.fill(1)
    if status != "pending":
        rows = await outbox.claim()
        if status == "sent":
            await outbox.settle(rows, "done")
    assert await STATEMENTS.retry_by_hand(outbox.lane, [id_]) == []
    assert (await outbox.row(id_))["status"] == status


async def test_reports_of_many_rows_settle_each_its_own_way(outbox: OutboxBench) -> None:
    await outbox.fill(4)
    rows = await outbox.claim()
    reports = [Report(row.id, row.attempts, outcome) for row, outcome in zip(rows, OUTCOMES, strict=True)]
    stale = Report(rows[0].id, 99, "failed")
    settled = {s.id: s.status for s in await STATEMENTS.settle(outbox.lane, [stale, *reports])}
    assert settled == dict(
        zip([row.id for row in rows], ["sent", "failed", "pending", "pending"], strict=True)
    )


# The whole property: every settle kind against every state a row can be in, by a plain model.
STATES = ("pending", "processing", "sent", "failed", "dead")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("fence", ["same", "older", "newer"])
async def test_every_settle_kind_against_every_state(
    outbox: OutboxBench, state: str, outcome: Outcome, fence: str
) -> None:
    (id_,) = await outbox.fill(1)
    await outbox.lane.fetch(
        "UPDATE notifications.notification_deliveries SET status = $2, attempts = 3, attempted_at = now() WHERE id = $1",
        id_,
        state,
    )
    before = await outbox.row(id_)
    attempts = {"same": 3, "older": 2, "newer": 4}[fence]
    settled = await STATEMENTS.settle(outbox.lane, [Report(id_, attempts, outcome)])
    after = await outbox.row(id_)
    lands = (
        fence == "same"
        and state
        in {
            "done": {"pending", "processing", "dead"},
            "failed": {"pending", "processing"},
            "retry": {"pending", "processing"},
            "release": {"processing"},
        }[outcome]
    )
    if lands:
        becomes = {"done": "sent", "failed": "failed", "retry": "pending", "release": "pending"}[outcome]
        assert [s.status for s in settled] == [becomes] == [after["status"]]
    else:
        assert settled == []
        assert {**after, "wait": 0} == {**before, "wait": 0}
    assert after["attempts"] == 3
    assert after["max_attempts"] == 5 + (lands and outcome == "release")


_STEPS = st.lists(
    st.one_of(
        st.just(("claim",)),
        st.just(("lapse and reap",)),
        st.just(("retry by hand",)),
        st.tuples(st.just("report"), st.integers(0, 5), st.sampled_from(OUTCOMES)),
    ),
    min_size=3,
    max_size=14,
)


@given(steps=_STEPS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_in_any_history_the_fence_never_goes_down_and_only_its_holder_settles(
    database: Database, steps: list[tuple]
) -> None:
    async with database.lane() as lane:
        outbox = OutboxBench(database, lane)
        await lane.fetch("TRUNCATE notifications.notifications CASCADE")
        (id_,) = await outbox.fill(1, budget=2)
        claims = []
        fence, ceiling = 0, 2
        for step in steps:
            before = await outbox.row(id_)
            if step[0] == "claim":
                await outbox.make_due(id_)
                claims += await outbox.claim()
            elif step[0] == "lapse and reap":
                await outbox.let_lease_lapse(id_)
                await outbox.reap()
            elif step[0] == "retry by hand":
                await STATEMENTS.retry_by_hand(lane, [id_])
            elif claims:
                claim = claims[step[1] % len(claims)]
                settled = await outbox.settle([claim], step[2])
                if claim.attempts != before["attempts"]:
                    assert settled == [], "a report whose row was re-claimed must not land"
            row = await outbox.row(id_)
            assert row["attempts"] >= fence
            assert row["max_attempts"] >= ceiling
            assert row["attempts"] <= row["max_attempts"], "nothing is attempted beyond its budget"
            fence, ceiling = row["attempts"], row["max_attempts"]
            if before["status"] == "sent":
                assert row["status"] == "sent", "what is sent stays sent"
        assert [claim.attempts for claim in claims] == sorted({claim.attempts for claim in claims})
