"""The mechanism as the page shows it: statements read from the code, numbers from the settings."""

import msgspec

from pillarbox.queue.claim import Statements
from pillarbox.queue.policy import QueuePolicy
from pillarbox.queue.table import RowT


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The numbers in force; `backoff_seconds` are the delays between the attempts, in order."""

    batch_size: int
    concurrency: int
    max_attempts: int
    backoff_seconds: list[float]
    backoff_cap_seconds: float
    lease_seconds: float
    tick_seconds: float
    send_timeout_seconds: float
    settle_margin_seconds: float
    waves: int
    worst_case_seconds: float


class Mechanism(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The statements that run, to the letter, and the numbers they run with."""

    claim: str
    settle: str
    reap: str
    policy: Policy


def mechanism(statements: Statements[RowT], policy: QueuePolicy) -> Mechanism:
    """What the queue runs."""
    lease = policy.lease
    return Mechanism(
        claim=statements.table.claim,
        settle=statements.settle_sql,
        reap=statements.reap_sql,
        policy=Policy(
            batch_size=policy.batch_size,
            concurrency=policy.concurrency,
            max_attempts=policy.max_attempts,
            backoff_seconds=policy.backoff.curve(policy.max_attempts),
            backoff_cap_seconds=policy.backoff.cap_seconds,
            lease_seconds=lease.seconds,
            tick_seconds=policy.tick_seconds,
            send_timeout_seconds=lease.run_timeout_seconds,
            settle_margin_seconds=lease.settle_margin_seconds,
            waves=lease.waves,
            worst_case_seconds=lease.worst_case_seconds,
        ),
    )
