"""Signed webhooks as Standard Webhooks describes them.

| answer | kind | code |
|---|---|---|
| 2xx | success | |
| 410 | permanent: the receiver is gone and says so | `http_410` |
| any other, 3xx and 4xx too | transient, as the standard has it | `http_404` |
| not a usable http(s) address | permanent | `webhook_bad_url` |
| name does not resolve | transient | `webhook_dns` |
| nobody listens | transient | `webhook_refused` |
| no way to the host | transient | `webhook_unreachable` |
| certificate or handshake | transient | `webhook_tls` |
| no answer in time | transient | `webhook_timeout` |
| the connection broke | transient | `webhook_disconnected` |
| an answer that is not HTTP | transient | `webhook_bad_answer` |

Why 400, 401, 403, 404, 405, 413, 415, 422 and 3xx are retried: a receiver answers them while it is being
deployed, moved or given a new secret, and it loses what is not sent again. Redirects are not followed: the
target is what its owner registered, not what it points to today. `Retry-After` is honoured wherever it
stands.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import SimpleNamespace
from typing import Literal
from urllib.parse import urlsplit
from uuid import UUID

import aiohttp
import msgspec
from aiohttp import ClientResponse, ClientSession

from pillarbox.channels.contract import Message, PermanentError, Receipt, SendError, TransientError
from pillarbox.channels.signing import decode_secret, sign
from pillarbox.channels.webhook_failures import send_error
from pillarbox.channels.wording import one_line
from pillarbox.version import VERSION

RETRY_AFTER_CAP_SECONDS = 86_400.0
"""However long a receiver wants to be left alone, it is asked again within a day."""

_BODY_LIMIT = 65_536
_BODY_SECONDS = 1.0
# Shorter than what servers keep idle connections for (five seconds is a usual default).
_KEEP_ALIVE_SECONDS = 4.0
_UNPRINTABLE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class _Data(msgspec.Struct, rename="camel"):
    delivery_id: UUID
    title: str
    body: str
    attempt: int


class _Envelope(msgspec.Struct):
    type: Literal["notification"]
    timestamp: datetime
    data: _Data


class WebhookChannel:
    """Posts each delivery to its URL, signed with every live secret.

    `previous_secrets` are signed with too while receivers change over to a new one. `timeout_seconds`
    bounds the whole send; the caller has its own deadline.
    """

    name = "webhook"

    def __init__(
        self,
        secret: str,
        *,
        previous_secrets: Sequence[str] = (),
        user_agent: str = f"Pillarbox/{VERSION}",
        timeout_seconds: float = 300.0,
    ) -> None:
        self._keys = [decode_secret(one) for one in (secret, *previous_secrets)]
        self._user_agent = user_agent
        self._timeout_seconds = timeout_seconds
        self._session: ClientSession | None = None
        self._closed = False

    async def send(self, message: Message) -> Receipt:
        """Post the message; a 2xx answer is the receipt.

        Raises:
            PermanentError: no repetition can succeed.
            TransientError: a later attempt may succeed.
        """
        host = _check(message.address)
        if self._closed:
            raise TransientError("webhook_closed", "the channel is closed")
        body = _body(message)
        try:
            async with asyncio.timeout(self._timeout_seconds):
                status, retry_after = await self._post_once_or_again(message, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise send_error(error, host) from error
        if 200 <= status < 300:
            return Receipt()
        raise _refusal(status, host, retry_after)

    async def aclose(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    # -- one exchange ------------------------------------------------------------------------------

    async def _post_once_or_again(self, message: Message, body: bytes) -> tuple[int, float | None]:
        """Post; and once more on a new connection where a kept one turned out to be gone.

        Whether the receiver had read the request cannot be known then. It may be asked twice in a row, as it
        may by any retry: the id is the same.
        """
        exchange = SimpleNamespace(reused=False)
        try:
            return await self._post(message, body, exchange)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, ConnectionError):
            if not exchange.reused:
                raise
            return await self._post(message, body, SimpleNamespace(reused=False))

    async def _post(
        self, message: Message, body: bytes, exchange: SimpleNamespace
    ) -> tuple[int, float | None]:
        webhook_id = str(message.delivery_id)
        timestamp = int(time.time())
        headers = {
            "content-type": "application/json",
            "user-agent": self._user_agent,
            "webhook-id": webhook_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(self._keys, webhook_id, timestamp, body),
        }
        request = self._open_session().post(
            message.address, data=body, headers=headers, allow_redirects=False, trace_request_ctx=exchange
        )
        async with request as response:
            status, retry_after = response.status, _retry_after(response)
            await _finish(response)
            return status, retry_after

    def _open_session(self) -> ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            self._session = ClientSession(
                connector=aiohttp.TCPConnector(keepalive_timeout=_KEEP_ALIVE_SECONDS, limit=0),
                # One receiver's cookies are nobody's business, its own included.
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=False,
                auto_decompress=False,
                trace_configs=[trace],
            )
        return self._session


async def _note_reuse(
    _session: ClientSession, context: SimpleNamespace, _parameters: aiohttp.TraceConnectionReuseconnParams
) -> None:
    context.trace_request_ctx.reused = True


async def _finish(response: ClientResponse) -> None:
    """Read what little body there is, so that the connection can be kept; with more, it is closed.

    The status has been given: nothing that follows changes the outcome.
    """
    with suppress(aiohttp.ClientError, OSError):
        async with asyncio.timeout(_BODY_SECONDS):
            remaining = _BODY_LIMIT
            while remaining > 0 and (chunk := await response.content.read(remaining)):
                remaining -= len(chunk)


def _body(message: Message) -> bytes:
    return msgspec.json.encode(
        _Envelope(
            "notification",
            _created_at(message.delivery_id),
            _Data(message.delivery_id, _text(message.title), _text(message.body), message.attempt),
        )
    )


def _created_at(delivery_id: UUID) -> datetime:
    """When the event came about, the same in every attempt: a UUIDv7 carries it."""
    if delivery_id.version == 7:
        return datetime.fromtimestamp((delivery_id.int >> 80) / 1000, UTC)
    return datetime.now(UTC)


def _text(text: str) -> str:
    """Without lone surrogates, which UTF-8 has no bytes for."""
    return text.encode(errors="replace").decode()


def _check(url: str) -> str:
    """The host of a usable URL; errors name it alone, since the rest may hold a token."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable, parts = False, None
    if not usable or parts is None or parts.hostname is None or _UNPRINTABLE.search(url):
        raise PermanentError("webhook_bad_url", "the address must read https://host/path; correct it")
    return parts.hostname


def _refusal(status: int, host: str, retry_after: float | None) -> SendError:
    try:
        phrase = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        phrase = str(status)
    said = one_line(f"{host} answered {phrase}")
    if status == HTTPStatus.GONE:
        return PermanentError("http_410", said)
    return TransientError(f"http_{status}", said, retry_after_seconds=retry_after)


def _retry_after(response: ClientResponse) -> float | None:
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit():
        return RETRY_AFTER_CAP_SECONDS if len(value) > 9 else min(float(value), RETRY_AFTER_CAP_SECONDS)
    then = _date(value)
    if then is None:
        return None
    # By the receiver's own clock where it shows it: a clock that is wrong is wrong in both.
    now = _date(response.headers.get("Date", "")) or datetime.now(UTC)
    return min(max((then - now).total_seconds(), 0.0), RETRY_AFTER_CAP_SECONDS)


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
