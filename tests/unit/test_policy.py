"""Backoff, budget and lease are arithmetic, and here every number of it is checked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pillarbox.queue.policy import Backoff, Lease, attempts_used, retry_delay_seconds

PLAIN = Backoff(base_seconds=30, factor=4, cap_seconds=3600)


def lease(
    seconds: float, *, batch: int = 25, concurrency: int = 5, timeout: float = 10, margin: float = 30
) -> Lease:
    return Lease(
        seconds=seconds,
        batch_size=batch,
        concurrency=concurrency,
        run_timeout_seconds=timeout,
        settle_margin_seconds=margin,
    )


def test_the_curve_is_thirty_seconds_two_eight_and_thirty_two_minutes() -> None:
    assert PLAIN.curve(5) == [30, 120, 480, 1920]


def test_the_delay_never_exceeds_the_cap() -> None:
    assert [PLAIN.delay_seconds(n) for n in (5, 6, 100, 10**9)] == [3600] * 4


def test_a_cap_below_the_base_wins() -> None:
    assert Backoff(base_seconds=30, factor=4, cap_seconds=7).delay_seconds(1) == 7


@pytest.mark.parametrize("failures", [0, -1])
def test_no_delay_without_a_failure(failures: int) -> None:
    with pytest.raises(ValueError, match="follows a failure"):
        PLAIN.delay_seconds(failures)


@given(
    base=st.floats(0, 1e6),
    factor=st.floats(1, 100),
    cap=st.floats(0, 1e6),
    jitter=st.floats(0, 1),
    failures=st.integers(1, 10_000),
    draw=st.floats(0, 1),
)
def test_jitter_never_leaves_the_bounds(
    base: float, factor: float, cap: float, jitter: float, failures: int, draw: float
) -> None:
    backoff = Backoff(base_seconds=base, factor=factor, cap_seconds=cap, jitter=jitter)
    plain = backoff.delay_seconds(failures)
    drawn = backoff.delay_seconds(failures, draw=draw)
    assert 0 <= drawn <= plain <= cap
    assert drawn >= plain * (1 - jitter) * (1 - 1e-12)


@given(failures=st.integers(1, 50), more=st.integers(0, 50))
def test_waiting_never_gets_shorter_with_more_failures(failures: int, more: int) -> None:
    assert PLAIN.delay_seconds(failures) <= PLAIN.delay_seconds(failures + more)


def test_a_longer_wish_of_the_provider_wins_and_a_shorter_one_does_not() -> None:
    assert retry_delay_seconds(PLAIN, 1, retry_after_seconds=600) == 600
    assert retry_delay_seconds(PLAIN, 1, retry_after_seconds=5) == 30
    assert retry_delay_seconds(PLAIN, 1) == 30


@pytest.mark.parametrize(
    ("attempts", "max_attempts", "budget", "used"),
    [
        (0, 5, 5, 0),
        (1, 5, 5, 1),
        (5, 5, 5, 5),
        (1, 6, 5, 0),  # handed back once
        (3, 4, 5, 5 - 1),
        (5, 10, 5, 0),  # dead, retried by hand
        (6, 10, 5, 1),
    ],
)
def test_attempts_are_counted_within_the_present_budget(
    attempts: int, max_attempts: int, budget: int, used: int
) -> None:
    assert attempts_used(attempts, max_attempts, budget) == used


def test_the_default_lease_holds_five_waves_of_ten_seconds() -> None:
    default = lease(300)
    assert (default.waves, default.worst_case_seconds, default.holds) == (5, 80, True)


@pytest.mark.parametrize(("seconds", "holds"), [(79.9, False), (80, False), (80.1, True)])
def test_a_lease_must_be_longer_than_the_worst_case(seconds: float, *, holds: bool) -> None:
    assert lease(seconds).holds is holds


def test_a_broken_batch_counts_as_a_whole_wave() -> None:
    assert lease(300, batch=26).waves == 6


def test_the_arithmetic_names_every_number() -> None:
    said = lease(60).arithmetic()
    for number in ("5 waves", "ceil(25 / 5)", "10 s", "30 s margin", "80 s", "60 s is not > 80 s"):
        assert number in said


@given(batch=st.integers(1, 500), concurrency=st.integers(1, 100), idle=st.integers(1, 100))
def test_what_free_slots_claim_they_finish_alone_within_the_worst_case(
    batch: int, concurrency: int, idle: int
) -> None:
    idle = min(idle, concurrency)
    arithmetic = lease(1e9, batch=batch, concurrency=concurrency)
    size = arithmetic.claim_size(idle)
    assert 1 <= size <= batch
    assert -(-size // idle) <= arithmetic.waves
    if idle == concurrency:
        assert size == batch


def test_a_run_is_begun_only_when_it_can_end_inside_the_lease() -> None:
    assert lease(300).may_begin(290)
    assert not lease(300).may_begin(290.1)
