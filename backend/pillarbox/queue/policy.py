"""Backoff, budget and lease as arithmetic: no clock, no I/O, nothing to wait for."""

import math

import msgspec


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """Exponential backoff: `base × factor^(n−1)` seconds after the n-th failure, never above `cap`.

    With `jitter` j in 0..1 the delay is drawn from the upper part `[(1−j)·d, d]` of the plain delay d,
    so it never leaves the bounds ("equal jitter" at j = 0.5, "full jitter" at j = 1; Brooker,
    "Exponential Backoff And Jitter", 2015).
    """

    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: float = 0.0

    def delay_seconds(self, failures: int, *, draw: float = 1.0) -> float:
        """Seconds to wait after the `failures`-th failure (counted from 1).

        `draw` in 0..1 picks the place within the jitter's range; 1 is the plain delay.
        """
        if failures < 1:
            raise ValueError(f"a delay follows a failure, and {failures} have happened")
        plain = min(self.base_seconds, self.cap_seconds)
        for _ in range(failures - 1):
            if plain >= self.cap_seconds or plain == 0 or self.factor == 1:
                break
            plain = min(plain * self.factor, self.cap_seconds)
        return plain * (1.0 - self.jitter * (1.0 - draw))

    def curve(self, max_attempts: int) -> list[float]:
        """The plain delays between `max_attempts` attempts, in order."""
        return [self.delay_seconds(failures) for failures in range(1, max_attempts)]


def retry_delay_seconds(
    backoff: Backoff, failures: int, *, retry_after_seconds: float | None = None, draw: float = 1.0
) -> float:
    """The backoff's delay, or the provider's own wish where that is longer."""
    return max(backoff.delay_seconds(failures, draw=draw), retry_after_seconds or 0.0)


def attempts_used(attempts: int, max_attempts: int, budget: int) -> int:
    """How many attempts of the present budget are spent.

    `attempts` is the fence and never goes down; a hand-back and a person's retry raise
    `max_attempts` instead. What the present budget of `budget` attempts has left is therefore
    `max_attempts − attempts`, and the rest is used.
    """
    return max(0, budget - (max_attempts - attempts))


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """How long a claim may be held, and whether a whole batch fits into that.

    A batch runs in `waves = ceil(batch / concurrency)` of at most `run_timeout_seconds` each; what
    remains is for settling.
    """

    seconds: float
    batch_size: int
    concurrency: int
    run_timeout_seconds: float
    settle_margin_seconds: float

    @property
    def waves(self) -> int:
        """How many rounds of `concurrency` runs a full batch takes."""
        return math.ceil(self.batch_size / self.concurrency)

    @property
    def worst_case_seconds(self) -> float:
        """The longest a full batch may take, from its claim to its last settle."""
        return self.waves * self.run_timeout_seconds + self.settle_margin_seconds

    @property
    def holds(self) -> bool:
        """Whether the lease outlives the worst case."""
        return self.seconds > self.worst_case_seconds

    def arithmetic(self) -> str:
        """The sum in words, for the refusal and for the page."""
        relation = ">" if self.holds else "is not >"
        return (
            f"{self.waves} waves (ceil({self.batch_size} / {self.concurrency})) "
            f"× {self.run_timeout_seconds:g} s + {self.settle_margin_seconds:g} s margin "
            f"= {self.worst_case_seconds:g} s, and the lease of {self.seconds:g} s {relation} "
            f"{self.worst_case_seconds:g} s"
        )

    def claim_size(self, idle: int) -> int:
        """How many rows `idle` free slots may claim.

        `waves` for each: whatever the busy slots do meanwhile, the idle ones alone finish these within
        the worst case, so the lease arithmetic holds for a partly busy process as for an idle one.
        """
        return min(self.batch_size, idle * self.waves)

    def may_begin(self, held_seconds: float) -> bool:
        """Whether a run begun `held_seconds` after the claim can still end inside the lease."""
        return held_seconds + self.run_timeout_seconds <= self.seconds


class QueuePolicy(msgspec.Struct, frozen=True, kw_only=True):
    """All numbers of one queue."""

    batch_size: int
    concurrency: int
    max_attempts: int
    tick_seconds: float
    backoff: Backoff
    lease: Lease
