"""Running one claimed row: within its lease, under its deadline, to a report whatever happens."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Generic

import structlog

from pillarbox.queue.claim import Report
from pillarbox.queue.deadline import ends_by
from pillarbox.queue.policy import QueuePolicy, attempts_used, retry_delay_seconds
from pillarbox.queue.table import RowT
from pillarbox.queue.verdict import Done, Failed, Release, Retry, Verdict

log = structlog.get_logger(__name__)

Run = Callable[[RowT], Coroutine[Any, Any, Verdict]]

_LONGEST_ERROR = 500


class Runner(Generic[RowT]):
    """Gives rows to a queue's handler and turns its verdicts into reports."""

    def __init__(self, policy: QueuePolicy, run: Run[RowT]) -> None:
        self._policy = policy
        self._run = run

    async def report(self, row: RowT, claimed_at: float) -> Report:
        """Run one row that was claimed at `claimed_at` on the loop's clock."""
        return self._as_report(row, await self._verdict(row, claimed_at))

    def hand_back(self, row: RowT) -> Report:
        """The report of a row that was claimed and never begun."""
        return self._as_report(row, Release())

    async def _verdict(self, row: RowT, claimed_at: float) -> Verdict:
        lease = self._policy.lease
        now = asyncio.get_running_loop().time()
        if not lease.may_begin(now - claimed_at):
            return Release(code="lease_short", message="what was left of the lease was shorter than a send")
        try:
            return await ends_by(now + lease.run_timeout_seconds, self._run(row))
        except TimeoutError:
            return Retry("deadline_exceeded", f"no answer within {lease.run_timeout_seconds:g} s")
        except asyncio.CancelledError:
            # Only the end of the process cancels a slot. The row goes back with its attempt unspent;
            # whether the other side took it is unknown, which at-least-once allows.
            return Release(code="interrupted", message="the worker stopped during this attempt")
        except Exception as error:
            log.exception("a handler failed unexpectedly", row=str(row.id), attempt=row.attempts)
            return Retry("unexpected_error", f"{type(error).__name__}: {error}")

    def _as_report(self, row: RowT, verdict: Verdict) -> Report:
        match verdict:
            case Done(receipt):
                return Report(row.id, row.attempts, "done", receipt=_storable(receipt))
            case Failed(code, message):
                return Report(row.id, row.attempts, "failed", 0.0, _storable(code), _storable(message))
            case Retry(code, message, retry_after_seconds):
                used = attempts_used(row.attempts, row.max_attempts, row.budget)
                delay = retry_delay_seconds(
                    self._policy.backoff,
                    max(1, used),
                    retry_after_seconds=retry_after_seconds,
                    draw=random.random() if self._policy.backoff.jitter else 1.0,  # noqa: S311
                )
                return Report(row.id, row.attempts, "retry", delay, _storable(code), _storable(message))
            case Release(delay_seconds, code, message):
                return Report(
                    row.id, row.attempts, "release", delay_seconds, _storable(code), _storable(message)
                )


def _storable(text: str | None) -> str | None:
    """Text PostgreSQL can hold: no NUL, no lone surrogate, not endless."""
    if text is None:
        return None
    if text.isascii() and "\0" not in text:
        return text[:_LONGEST_ERROR]
    return text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")[:_LONGEST_ERROR]
