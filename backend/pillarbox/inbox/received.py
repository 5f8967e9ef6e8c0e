"""A mail as the built-in inbox reads it: whatever arrives, the result is text that can be kept."""

import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import cast
from uuid import UUID

import msgspec

from pillarbox.channels.mail import ATTEMPT_HEADER, DELIVERY_HEADER

# What PostgreSQL's text and UTF-8 cannot carry.
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")


class ReceivedMail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail to one recipient. The first two are ours alone: mail of others has neither."""

    delivery_id: UUID | None
    attempt: int | None
    sender: str
    recipient: str
    subject: str
    body: str
    message_id: str | None


def read_mail(content: bytes, sender: str, recipient: str) -> ReceivedMail:
    """Read a mail; never fails, since a message a parser stumbles over is one to be seen, too."""
    mail = message_from_bytes(content, policy=policy.default)
    return ReceivedMail(
        delivery_id=_uuid(_header(mail, DELIVERY_HEADER)),
        attempt=_number(_header(mail, ATTEMPT_HEADER)),
        sender=_text(sender),
        recipient=_text(recipient),
        subject=_header(mail, "Subject"),
        body=_body(mail),
        message_id=_header(mail, "Message-ID") or None,
    )


def _header(mail: EmailMessage, name: str) -> str:
    try:
        return _text(str(mail.get(name, ""))).strip()
    except Exception:  # the library's header parser fails with IndexError and others on what is malformed
        return ""


def _body(mail: EmailMessage) -> str:
    try:
        part = mail.get_body(("plain", "html"))
        content = part.get_content() if part is not None else ""
    except Exception:  # unknown charsets, broken encodings, lying content types: shown as they came
        content = cast("object", mail.get_payload())
    return _text(content if isinstance(content, str) else "").replace("\r\n", "\n").removesuffix("\n")


def _text(text: str) -> str:
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
