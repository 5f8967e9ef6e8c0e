"""Shortcuts around the outbox for tests: fill it, move its rows in time, look at one."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from pillarbox.accounts.people import ensure_person
from pillarbox.database.engine import Database
from pillarbox.database.lane import Lane
from pillarbox.notifications.outbox import OUTBOX, ClaimedDelivery
from pillarbox.notifications.service import Draft, Target, send
from pillarbox.queue.claim import Outcome, Report, Settled, Statements
from pillarbox.queue.drain import Drain
from pillarbox.queue.verdict import Verdict
from pillarbox.settings import Settings

STATEMENTS = Statements(OUTBOX)
LEASE_SECONDS = 300.0


class OutboxBench:
    """One test's outbox."""

    def __init__(self, database: Database, lane: Lane) -> None:
        self.database = database
        self.lane = lane

    async def fill(self, count: int, *, budget: int = 5, channel: str = "email") -> list[UUID]:
        """Write `count` due deliveries."""
        async with self.database.session() as session:
            person = await ensure_person(session, name="Ada", email="ada@example.org")
            return await send(
                session,
                [
                    Draft(
                        person_id=person,
                        type="system",
                        title=f"title {number}",
                        body="body",
                        targets=(Target(channel, "ada@example.org"),),
                    )
                    for number in range(count)
                ],
                budget=budget,
            )

    async def claim(self, limit: int = 25) -> list[ClaimedDelivery]:
        """Claim as a drain does."""
        return await STATEMENTS.claim(self.lane, limit)

    async def settle(
        self, rows: Sequence[ClaimedDelivery], outcome: Outcome = "done", **more: Any
    ) -> list[Settled]:
        """Report the same outcome for all rows."""
        return await STATEMENTS.settle(
            self.lane, [Report(row.id, row.attempts, outcome, **more) for row in rows]
        )

    async def reap(self) -> list[Settled]:
        """Reap as a drain does."""
        return await STATEMENTS.reap(self.lane, LEASE_SECONDS)

    async def let_lease_lapse(self, *ids: UUID) -> None:
        """Move claims into the past, beyond the lease."""
        await self.lane.fetch(
            "UPDATE notifications.notification_deliveries "
            "SET attempted_at = attempted_at - make_interval(secs => $2) WHERE id = ANY ($1)",
            list(ids),
            LEASE_SECONDS + 1,
        )

    async def make_due(self, *ids: UUID) -> None:
        """Move next attempts to now."""
        await self.lane.fetch(
            "UPDATE notifications.notification_deliveries SET next_attempt_at = now() WHERE id = ANY ($1)",
            list(ids),
        )

    async def row(self, delivery_id: UUID) -> asyncpg.Record:
        """One row as it stands, with seconds until its next attempt as `wait`."""
        return (
            await self.lane.fetch(
                "SELECT *, extract(epoch FROM next_attempt_at - now())::float8 AS wait "
                "FROM notifications.notification_deliveries WHERE id = $1",
                delivery_id,
            )
        )[0]

    async def counts(self) -> dict[str, int]:
        """Rows a status, counted the slow and certain way."""
        records = await self.lane.fetch(
            "SELECT status, count(*) FROM notifications.notification_deliveries GROUP BY status"
        )
        return dict(map(tuple, records))


def make_drain(
    database: Database, run: Callable[[ClaimedDelivery], Awaitable[Verdict]], **changes: Any
) -> Drain[ClaimedDelivery]:
    """A drain with the default numbers, or changed ones (fields of Settings, without `delivery_`)."""
    grace = changes.pop("grace_seconds", 0.2)
    settings = msgspec.structs.replace(
        Settings(), **{f"delivery_{name}": value for name, value in changes.items()}
    )
    return Drain(STATEMENTS, settings.delivery_policy, run, database.lane, grace_seconds=grace)
