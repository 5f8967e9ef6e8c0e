"""Writing notifications and their deliveries, and reading deliveries back."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import UUID

import msgspec
from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncSession
from uuid_utils.compat import uuid7

from pillarbox.queue.policy import attempts_used

NotificationType = Literal["mention", "comment", "system", "success", "security", "follow"]
DeliveryStatus = Literal["pending", "processing", "sent", "failed", "dead"]


class Target(msgspec.Struct, frozen=True):
    """Where one delivery goes: a channel and an address in that channel's notation."""

    channel: str
    address: str


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A notification to be sent: one delivery for each target, at most one target a channel."""

    person_id: UUID
    type: NotificationType
    title: str
    body: str
    targets: tuple[Target, ...]


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One delivery as people see it. `attempts_used` counts within the present budget."""

    id: UUID
    notification_id: UUID
    channel: str
    address: str
    title: str
    status: DeliveryStatus
    retrying: bool
    attempts: int
    max_attempts: int
    budget: int
    attempts_used: int
    created_at: datetime
    attempted_at: datetime | None
    next_attempt_at: datetime
    next_attempt_in_seconds: float
    sent_at: datetime | None
    error_code: str | None
    error_message: str | None
    provider_message_id: str | None


# Both tables in one statement: one way to the server and back.
_INSERT = text("""\
WITH written AS (
  INSERT INTO notifications.notifications (id, person_id, type, title, body)
  SELECT * FROM unnest(
    CAST(:ids AS uuid[]), CAST(:people AS uuid[]), CAST(:types AS text[]),
    CAST(:titles AS text[]), CAST(:bodies AS text[])
  )
)
INSERT INTO notifications.notification_deliveries
  (id, notification_id, channel, address, max_attempts, budget)
SELECT r.id, r.notification_id, r.channel, r.address, CAST(:budget AS int), CAST(:budget AS int)
FROM unnest(
  CAST(:delivery_ids AS uuid[]), CAST(:notifications AS uuid[]), CAST(:channels AS text[]),
  CAST(:addresses AS text[])
) AS r (id, notification_id, channel, address)
""")

_SELECT = """\
SELECT d.id, d.notification_id, d.channel, d.address, n.title, d.status,
  d.status = 'pending' AND d.attempts > 0 AND d.next_attempt_at > now() AS retrying,
  d.attempts, d.max_attempts, d.budget, d.created_at, d.attempted_at, d.next_attempt_at,
  CAST(extract(epoch FROM d.next_attempt_at - now()) AS float8) AS next_attempt_in_seconds,
  d.sent_at, d.error_code, d.error_message, d.provider_message_id
FROM notifications.notification_deliveries AS d
JOIN notifications.notifications AS n ON n.id = d.notification_id
"""

_RECENT = text(_SELECT + "ORDER BY d.id DESC\nLIMIT :limit\n")
_ONE = text(_SELECT + "WHERE d.id = :id\n")


async def send(session: AsyncSession, drafts: Sequence[Draft], *, budget: int) -> list[UUID]:
    """Write notifications and deliveries in the session's transaction; answers the delivery ids in order.

    Rolled back means never sent, committed means sent at least once. The caller announces after the
    commit, so that the drain need not wait for its tick.
    """
    notifications = [(uuid7(), draft) for draft in drafts]
    deliveries = [
        (uuid7(), notification_id, target)
        for notification_id, draft in notifications
        for target in draft.targets
    ]
    await session.execute(
        _INSERT,
        {
            "ids": [notification_id for notification_id, _ in notifications],
            "people": [draft.person_id for draft in drafts],
            "types": [draft.type for draft in drafts],
            "titles": [draft.title for draft in drafts],
            "bodies": [draft.body for draft in drafts],
            "delivery_ids": [delivery_id for delivery_id, _, _ in deliveries],
            "notifications": [notification_id for _, notification_id, _ in deliveries],
            "channels": [target.channel for _, _, target in deliveries],
            "addresses": [target.address for _, _, target in deliveries],
            "budget": budget,
        },
    )
    return [delivery_id for delivery_id, _, _ in deliveries]


async def recent_deliveries(session: AsyncSession, limit: int) -> list[Delivery]:
    """The newest deliveries first."""
    return [_delivery(row) for row in (await session.execute(_RECENT, {"limit": limit})).mappings()]


async def find_delivery(session: AsyncSession, delivery_id: UUID) -> Delivery | None:
    """One delivery, or None where there is none."""
    row = (await session.execute(_ONE, {"id": delivery_id})).mappings().one_or_none()
    return _delivery(row) if row is not None else None


def _delivery(row: RowMapping) -> Delivery:
    values = dict(row)
    used = attempts_used(values["attempts"], values["max_attempts"], values["budget"])
    return Delivery(**values, attempts_used=used)
