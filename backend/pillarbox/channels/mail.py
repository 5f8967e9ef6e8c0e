"""A delivery as a mail: the addresses checked, the message in bytes as SMTP carries it."""

import re
import unicodedata
from datetime import UTC, datetime
from email import policy
from email.header import Header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import EmailPolicy
from email.utils import format_datetime
from functools import cache

import msgspec
from email_validator import EmailNotValidError, validate_email

from pillarbox.channels.contract import Message, PermanentError
from pillarbox.errors import ConfigurationError

DELIVERY_HEADER = "Pillarbox-Delivery"
ATTEMPT_HEADER = "Pillarbox-Attempt"

# Bodies travel in 7 bits (quoted-printable or base64 where needed): no server has to offer 8BITMIME.
_WIRE = policy.SMTP.clone(cte_type="7bit")
_WIRE_UTF8 = policy.SMTPUTF8.clone(cte_type="7bit")

# What must not stand in a header: controls and everything some reader takes for a line's end.
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
# A line break other than a fold's.
_BARE_BREAK = re.compile(r"\r(?!\n)|(?<!\r)\n|\r\n(?![ \t])")
_LINE_END = re.compile(rb"\r\n|\r|\n|(?<!\n)\Z")
_LEADING_DOT = re.compile(rb"(?m)^\.")
# A mailbox without quoting or comments, and a domain or an address literal.
_MAILBOX = re.compile(
    r"[^\s\x00-\x1f\x7f<>()\[\]\\,;:@\"]+@(?:[^\s\x00-\x1f\x7f<>()\[\]\\,;:@\"]+|\[[0-9A-Za-z.:]+\])"
)

_NAMED = re.compile(r"([^<>]*)<([^<>]+)>\s*")


class Mailbox(msgspec.Struct, frozen=True):
    """An address as it goes on the wire; `utf8` where its local part needs SMTPUTF8."""

    local: str
    domain: str
    utf8: bool
    name: str = ""

    @property
    def address(self) -> str:
        """Without the name."""
        return f"{self.local}@{self.domain}"


def parse_sender(text: str) -> Mailbox:
    """The configured sender, with or without a name.

    Raises:
        ConfigurationError: it is not an address.
    """
    # Not the library's parser: it takes a comma in an unquoted name for the end of an address.
    name, address = match.groups() if (match := _NAMED.fullmatch(text)) else ("", text)
    try:
        mailbox = _mailbox(address.strip())
    except ValueError as error:
        raise ConfigurationError(
            f"PILLARBOX_SMTP_FROM is {text!r}; it must look like Name <name@example.org>"
        ) from error
    return msgspec.structs.replace(mailbox, name=_CONTROLS.sub(" ", name).strip().strip('"'))


def parse_recipient(text: str) -> Mailbox:
    """The address of a delivery.

    Raises:
        PermanentError: it cannot be one of anybody's.
    """
    try:
        return _mailbox(text)
    except ValueError as error:
        raise PermanentError("smtp_bad_address", "this is not a mail address; correct it") from error


def compose(message: Message, sender: Mailbox, recipient: Mailbox) -> bytes:
    """The message as it follows DATA, the same Message-ID in every attempt of a delivery.

    Lines are ended by CRLF and nothing else, leading dots doubled, the final dot stands behind (RFC 5321,
    4.5.2): no server can see a message end where none does.
    """
    wire = _WIRE_UTF8 if sender.utf8 or recipient.utf8 else _WIRE
    mail = EmailMessage(wire)
    for name, value in (
        ("From", _from(sender, wire)),
        ("To", recipient.address),
        ("Subject", _subject(message.title)),
        ("Date", format_datetime(datetime.now(UTC))),
        ("Message-ID", f"<{message.delivery_id}@pillarbox>"),
        # Out-of-office robots keep silent on these (RFC 3834).
        ("Auto-Submitted", "auto-generated"),
        (DELIVERY_HEADER, str(message.delivery_id)),
        (ATTEMPT_HEADER, str(message.attempt)),
    ):
        mail[name] = _Finished(name, value)
    mail.set_content(message.body.encode(errors="replace").decode())
    return _LEADING_DOT.sub(b"..", _LINE_END.sub(b"\r\n", mail.as_bytes())) + b".\r\n"


class _Finished(str):
    """A header value that is as it goes on the wire.

    The library would parse every value and fold it anew. That is most of the time a mail takes, and it
    reads encoded words inside plain text: a title spelled `=?utf-8?q?=0ABcc:…?=` would come out decoded,
    line break included. So what it gets is finished, and checked against the one thing that must not be.
    """

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str, value: str) -> "_Finished":
        if _BARE_BREAK.search(value):
            raise ValueError(f"a line break in {name}")
        finished = super().__new__(cls, value)
        finished.name = name
        return finished

    def fold(self, *, policy: EmailPolicy) -> str:
        """The whole header line."""
        return f"{self.name}: {self}{policy.linesep}"


def _subject(title: str) -> str:
    text = " ".join(_CONTROLS.sub(" ", title).split())
    if text.isascii() and "=?" not in text and len(text) <= 68:
        return text
    return Header(text, "utf-8", 76, "Subject").encode(linesep="\r\n")


@cache
def _from(sender: Mailbox, wire: EmailPolicy) -> str:
    header = EmailMessage(wire)
    header["From"] = Address(sender.name, sender.local, sender.domain)
    return wire.fold("From", header["From"]).removeprefix("From: ").removesuffix("\r\n")


def _mailbox(address: str) -> Mailbox:
    if not _MAILBOX.fullmatch(address) or len(address.encode(errors="replace")) > 254:
        raise ValueError(address)
    local, _, domain = address.rpartition("@")
    if not address.isascii():
        if any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in address):
            raise ValueError(address)
        try:
            checked = validate_email(
                address, check_deliverability=False, test_environment=True, globally_deliverable=False
            )
        except EmailNotValidError as error:
            raise ValueError(address) from error
        local, domain = checked.local_part, checked.ascii_domain
    return Mailbox(local, domain, utf8=not local.isascii())
