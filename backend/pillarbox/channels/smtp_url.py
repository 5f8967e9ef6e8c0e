"""Where mail goes out, read from one URL: `smtp://user:pass@host:port?starttls=required` or `smtps://…`."""

import ipaddress
import ssl
from base64 import b64encode
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from pillarbox.errors import ConfigurationError

_FORM = "PILLARBOX_SMTP_URL must read smtp://[user:password@]host[:port][?starttls=required|off] or smtps://…"


class Relay(msgspec.Struct, frozen=True, kw_only=True):
    """The server mail is handed to.

    `starttls` None: encrypted where offered, which keeps eavesdroppers out and nobody else; that is the
    default without credentials. With credentials it is required of any host but this one, or whoever
    stands between could strip the offer and read the password.
    """

    host: str
    port: int
    tls: bool
    starttls: Literal[True, False, None]
    user: str | None
    password: str

    @property
    def verified(self) -> bool:
        """Whether the server's certificate has to be right."""
        return self.tls or self.starttls is True

    @property
    def secrets(self) -> tuple[str, ...]:
        """Every spelling of the password a server could echo, the longest first."""
        if not self.password:
            return ()
        encoded = [
            b64encode(text.encode()).decode() for text in (f"\0{self.user}\0{self.password}", self.password)
        ]
        return tuple(sorted((self.password, *encoded), key=len, reverse=True))

    def tls_context(self) -> ssl.SSLContext:
        """A client's context, verifying or not."""
        if self.verified:
            return ssl.create_default_context()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context


def parse_relay(url: str) -> Relay:
    """Read the URL.

    Raises:
        ConfigurationError: it is malformed; the message never repeats it, since it may hold a password.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigurationError(_FORM) from error
    if parts.scheme not in {"smtp", "smtps"} or not host or port == 0 or parts.path not in {"", "/"}:
        raise ConfigurationError(_FORM)
    tls = parts.scheme == "smtps"
    user = unquote(parts.username) if parts.username else None
    choice = options.pop("starttls", None)
    if options or (choice and tls) or choice not in (None, ["required"], ["off"]):
        raise ConfigurationError(_FORM)
    if choice:
        starttls = choice == ["required"]
    else:
        starttls = True if user and not tls and not _is_loopback(host) else None
    return Relay(
        host=host,
        port=port or (465 if tls else 587 if user else 25),
        tls=tls,
        starttls=starttls,
        user=user,
        password=unquote(parts.password or ""),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
