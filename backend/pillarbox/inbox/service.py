"""What the built-in inbox has received: kept in the database, one row a delivery, repetitions counted."""

from datetime import datetime
from uuid import UUID

import msgspec
from sqlalchemy import text
from uuid_utils.compat import uuid7

from pillarbox.database.engine import Database
from pillarbox.inbox.received import ReceivedMail
from pillarbox.queue.board import Board

_STORE = text("""\
INSERT INTO inbox.messages (id, delivery_id, channel, recipient, subject, body)
VALUES (:id, :delivery_id, :channel, :recipient, :subject, :body)
ON CONFLICT (delivery_id) DO UPDATE SET copies = inbox.messages.copies + 1, received_at = now()
""")

_NEWEST = text("""\
SELECT id, delivery_id, channel, recipient, subject, body, copies, received_at
FROM inbox.messages
ORDER BY id DESC
LIMIT :limit
""")

_COUNT = text("SELECT count(*) FROM inbox.messages")
_CLEAR = text("DELETE FROM inbox.messages")


class InboxMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One received message. `copies` above 1: the same delivery arrived again, recognised by its key."""

    id: UUID
    delivery_id: UUID | None
    channel: str
    recipient: str
    subject: str
    body: str
    copies: int
    received_at: datetime


class InboxNews(msgspec.Struct, frozen=True):
    """Tells readers of the stream that the inbox is no longer what it was; `change` only counts."""

    change: int


class InboxPage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The newest messages and how many there are in all."""

    items: list[InboxMessage]
    total: int


class Inbox:
    """Keeps received messages."""

    TOPIC = "inbox"

    def __init__(self, database: Database, board: Board) -> None:
        self._database = database
        self._board = board
        self._received = 0

    async def store_mail(self, mail: ReceivedMail) -> None:
        """Keep a mail the SMTP server took."""
        await self.store(
            delivery_id=mail.delivery_id,
            channel="email",
            recipient=mail.recipient,
            subject=mail.subject,
            body=mail.body,
        )

    async def store(
        self, *, delivery_id: UUID | None, channel: str, recipient: str, subject: str, body: str
    ) -> None:
        """Keep a message; one whose delivery id is known already counts as a further copy."""
        async with self._database.session() as session:
            await session.execute(
                _STORE,
                {
                    "id": uuid7(),
                    "delivery_id": delivery_id,
                    "channel": channel,
                    "recipient": recipient,
                    "subject": subject,
                    "body": body,
                },
            )
        self._post()

    async def newest(self, limit: int) -> InboxPage:
        """The newest messages first."""
        async with self._database.session() as session:
            rows = (await session.execute(_NEWEST, {"limit": limit})).mappings()
            items = [InboxMessage(**row) for row in rows]
            return InboxPage(items=items, total=(await session.execute(_COUNT)).scalar_one())

    async def clear(self) -> None:
        """Delete every message."""
        async with self._database.session() as session:
            await session.execute(_CLEAR)
        self._post()

    def _post(self) -> None:
        self._received += 1
        self._board.post(self.TOPIC, InboxNews(change=self._received))
