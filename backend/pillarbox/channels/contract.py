"""What a channel is given, what it answers, and how its failures are told apart."""

from typing import Protocol
from uuid import UUID

import msgspec

from pillarbox.errors import PillarboxError


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One delivery as a channel sees it.

    `delivery_id` is the idempotency key: the same for every attempt of one delivery, so a provider
    that keeps such keys can drop a repetition. `address` is the channel's own notation (a mail
    address, a URL). `attempt` counts from 1 and is the fence of this attempt.
    """

    delivery_id: UUID
    address: str
    title: str
    body: str
    attempt: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """A provider took the message; `provider_message_id` is its own name for it, where it gives one."""

    provider_message_id: str | None = None


class SendError(PillarboxError):
    """A send that did not succeed. `code` is short, stable and made for filtering (`smtp_550_5.1.1`)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class PermanentError(SendError):
    """No repetition can succeed: the address is wrong, the target is gone."""


class TransientError(SendError):
    """A later attempt may succeed. `retry_after_seconds` is the provider's own wish, where it states one."""

    def __init__(self, code: str, message: str, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(code, message)
        self.retry_after_seconds = retry_after_seconds


class Channel(Protocol):
    """Sends a message over one protocol.

    The caller puts the deadline around the whole call; a channel is cancellation-safe and leaves no
    connection behind when it is cancelled.
    """

    @property
    def name(self) -> str:
        """The channel's name as rows carry it (`email`, `webhook`)."""
        ...

    async def send(self, message: Message) -> Receipt:
        """Hand the message to the provider.

        Raises:
            PermanentError: no repetition can succeed.
            TransientError: a later attempt may succeed.
        """
        ...

    async def aclose(self) -> None:
        """Release pooled connections; nothing is sent afterwards."""
        ...
