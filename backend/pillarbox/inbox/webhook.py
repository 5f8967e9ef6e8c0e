"""The built-in inbox's webhook receiver: checks the signature, plays rehearsals, stores the rest."""

from uuid import UUID

import msgspec

from pillarbox.channels.signing import InvalidSignatureError, verify
from pillarbox.inbox.service import Inbox


class Answer(msgspec.Struct, frozen=True):
    """What the receiver answers."""

    status: int
    headers: dict[str, str] = {}


class _Data(msgspec.Struct, rename="camel"):
    delivery_id: UUID
    title: str
    body: str
    attempt: int


class _Envelope(msgspec.Struct):
    data: _Data


class WebhookReceiver:
    """Takes signed webhooks at one secret."""

    def __init__(self, inbox: Inbox, secret: str) -> None:
        self._inbox = inbox
        self._secret = secret

    async def receive(self, body: bytes, headers: dict[str, str], rehearsal: str, recipient: str) -> Answer:
        """Verify, rehearse a failure where asked to, store otherwise."""
        try:
            verify([self._secret], headers, body)
        except InvalidSignatureError:
            return Answer(401)
        try:
            data = msgspec.json.decode(body, type=_Envelope).data
        except msgspec.DecodeError:
            return Answer(400)
        if rehearsal == "poison":
            return Answer(410)
        if rehearsal == "flaky" and data.attempt < 2:
            return Answer(503, {"retry-after": "5"})
        await self._inbox.store(
            delivery_id=data.delivery_id,
            channel="webhook",
            recipient=recipient,
            subject=data.title,
            body=data.body,
        )
        return Answer(204)
