"""The webhook channel against a real server that answers, fails, hangs, resets and floods."""

import asyncio
import base64
import random
import socket
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from uuid_utils.compat import uuid7

from pillarbox.channels import webhook
from pillarbox.channels.contract import Message, PermanentError, Receipt, TransientError
from pillarbox.channels.signing import verify
from pillarbox.channels.webhook import RETRY_AFTER_CAP_SECONDS, WebhookChannel
from tests.servers.certificates import LoopbackCertificate
from tests.servers.http import Answer, Behaviour, Drop, Flood, Hang, Raw, Reset, ScriptedHttpServer

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OLD_SECRET = "whsec_" + base64.b64encode(bytes(range(1, 33))).decode()


@pytest.fixture
async def server() -> AsyncIterator[ScriptedHttpServer]:
    async with ScriptedHttpServer() as server:
        yield server


@pytest.fixture
async def channel() -> AsyncIterator[WebhookChannel]:
    channel = WebhookChannel(SECRET, previous_secrets=[OLD_SECRET], timeout_seconds=5)
    yield channel
    await channel.aclose()


def message(address: str, *, delivery_id: UUID | None = None, attempt: int = 1) -> Message:
    return Message(
        delivery_id=delivery_id or uuid7(),
        address=address,
        title="Grüße",
        body='Zeile 1\nZeile "2"',
        attempt=attempt,
    )


async def test_a_delivery_arrives_signed_with_every_live_secret(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    sent = message(f"{server.url}/hook?token=t", attempt=2)
    assert await channel.send(sent) == Receipt()
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/hook?token=t")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["webhook-id"] == str(sent.delivery_id)
    assert "." not in request.headers["webhook-id"]
    assert request.headers["user-agent"].startswith("Pillarbox/")
    verify([SECRET], request.headers, request.body)
    verify([OLD_SECRET], request.headers, request.body)
    assert request.json["type"] == "notification"
    assert request.json["data"] == {
        "deliveryId": str(sent.delivery_id),
        "title": "Grüße",
        "body": 'Zeile 1\nZeile "2"',
        "attempt": 2,
    }


async def test_every_attempt_of_a_delivery_carries_the_same_id_and_event_time(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    delivery_id = uuid7()
    for attempt in (1, 2):
        await channel.send(message(server.url, delivery_id=delivery_id, attempt=attempt))
    first, second = server.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.json["timestamp"] == second.json["timestamp"]


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_2xx_is_success(server: ScriptedHttpServer, channel: WebhookChannel, status: int) -> None:
    server.script(Answer(status))
    assert await channel.send(message(server.url)) == Receipt()


async def test_gone_is_permanent(server: ScriptedHttpServer, channel: WebhookChannel) -> None:
    server.script(Answer(410))
    with pytest.raises(PermanentError) as caught:
        await channel.send(message(server.url))
    assert caught.value.code == "http_410"


REFUSALS = """300 301 302 303 304 307 308 400 401 403 404 405 408 409 413 415 422 425 429
500 501 502 503 504 599"""


@pytest.mark.parametrize("status", [int(status) for status in REFUSALS.split()])
async def test_every_other_status_is_tried_again(
    server: ScriptedHttpServer, channel: WebhookChannel, status: int
) -> None:
    server.script(Answer(status, {"Location": f"{server.url}/elsewhere"}, b""))
    with pytest.raises(TransientError) as caught:
        await channel.send(message(f"{server.url}/t0ken"))
    assert caught.value.code == f"http_{status}"
    assert "127.0.0.1" in caught.value.message
    assert "t0ken" not in caught.value.message
    assert len(server.requests) == 1  # and no redirect is followed


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("120", 120),
        ("0", 0),
        ("86401", RETRY_AFTER_CAP_SECONDS),
        ("9" * 4000, RETRY_AFTER_CAP_SECONDS),
        (formatdate(1_790_000_300, usegmt=True), 300),
        (formatdate(1_789_999_000, usegmt=True), 0),
        (formatdate(1_890_000_000, usegmt=True), RETRY_AFTER_CAP_SECONDS),
        ("-5", None),
        ("soon", None),
        ("", None),
        ("Fri, 99 Foo 2026 99:99:99 GMT", None),
    ],
)
async def test_retry_after_is_honoured_within_bounds(
    server: ScriptedHttpServer, channel: WebhookChannel, status: int, value: str, expected: float | None
) -> None:
    date = formatdate(1_790_000_000, usegmt=True)
    server.script(Answer(status, {"Retry-After": value, "Date": date}))
    with pytest.raises(TransientError) as caught:
        await channel.send(message(server.url))
    assert caught.value.retry_after_seconds == expected


async def test_a_retry_after_date_is_read_by_our_clock_where_the_server_shows_none(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.script(Answer(503, {"Retry-After": formatdate(time.time() + 120, usegmt=True)}))
    with pytest.raises(TransientError) as caught:
        await channel.send(message(server.url))
    assert caught.value.retry_after_seconds == pytest.approx(120, abs=5)


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Drop(), "webhook_disconnected"),
        (Reset(), "webhook_disconnected"),
        (Hang(), "webhook_timeout"),
        (Raw(b"220 not.http ESMTP\r\n"), "webhook_bad_answer"),
        (Raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n"), "webhook_bad_answer"),
        (Raw(b"HTTP/1.1 200"), "webhook_disconnected"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
async def test_a_broken_exchange_is_tried_again(
    server: ScriptedHttpServer, behaviour: Behaviour, code: str
) -> None:
    channel = WebhookChannel(SECRET, timeout_seconds=0.3 if isinstance(behaviour, Hang) else 5)
    server.script(behaviour)
    with pytest.raises(TransientError) as caught:
        await channel.send(message(server.url))
    assert caught.value.code == code
    await channel.aclose()
    await server.connections.until(open=0)


async def test_nobody_listening_is_tried_again(channel: WebhookChannel) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(TransientError) as caught:
            await channel.send(message(f"http://{host}:{port}/"))
        assert caught.value.code == "webhook_refused"


async def test_a_name_that_does_not_resolve_is_tried_again(channel: WebhookChannel) -> None:
    with pytest.raises(TransientError) as caught:
        await channel.send(message("https://nowhere.invalid/hook"))
    assert caught.value.code == "webhook_dns"


async def test_a_certificate_nobody_vouches_for_is_tried_again(
    channel: WebhookChannel, tmp_path: Path
) -> None:
    certificate = LoopbackCertificate.make(tmp_path)
    async with ScriptedHttpServer(tls=certificate.server_context()) as server:
        with pytest.raises(TransientError) as caught:
            await channel.send(message(server.url))
        assert caught.value.code == "webhook_tls"
        assert server.requests == []


async def test_plain_http_behind_https_is_tried_again(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    with pytest.raises(TransientError) as caught:
        await channel.send(message(server.url.replace("http://", "https://")))
    assert caught.value.code in {"webhook_tls", "webhook_disconnected"}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hook",
        "/hook",
        "ftp://x/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "http://",
        "http:///x",
        "http://x:0/",
        "http://x:99999/",
        "http://x:port/",
        "http://[::1/",
        "http://a..b/",
        "http://" + "ü" * 300 + "/",
        "http://a b/",
        "http://x/\r\nHost: y",
        "http://x/\x00",
        "\u00a0http://x",
    ],
)
async def test_a_malformed_address_is_permanent(channel: WebhookChannel, url: str) -> None:
    with pytest.raises(PermanentError) as caught:
        await channel.send(message(url))
    assert caught.value.code == "webhook_bad_url"


async def test_an_endless_body_changes_nothing_and_is_not_read_to_its_end(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.script(Flood(200))
    assert await channel.send(message(server.url)) == Receipt()
    await server.connections.until(open=0)
    assert server.flooded < 20_000_000


async def test_a_trickling_body_changes_nothing_and_is_not_waited_for(
    server: ScriptedHttpServer, channel: WebhookChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "_BODY_SECONDS", 0.05)
    server.script(Flood(500, b"x", pause_seconds=0.01))
    with pytest.raises(TransientError) as caught:
        await channel.send(message(server.url))
    assert caught.value.code == "http_500"
    await server.connections.until(open=0)


async def test_a_compressed_body_is_never_unpacked(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.script(Answer(200, {"Content-Encoding": "gzip"}, b"not gzip at all"))
    assert await channel.send(message(server.url)) == Receipt()


async def test_sends_that_follow_each_other_share_a_connection(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.always = Answer(200, body=b"x" * 60_000)
    for _ in range(5):
        await channel.send(message(server.url))
    assert server.connections.total == 1


async def test_a_kept_connection_that_is_gone_costs_no_attempt(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    await channel.send(message(server.url))
    server.script(Drop())  # as if it had been closed while the request was under way
    assert await channel.send(message(server.url)) == Receipt()
    assert server.connections.total == 2


async def test_a_new_connection_that_breaks_is_not_tried_twice(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.always = Drop()
    with pytest.raises(TransientError):
        await channel.send(message(server.url))
    assert len(server.requests) == 1


async def test_no_cookie_is_ever_sent_back(server: ScriptedHttpServer, channel: WebhookChannel) -> None:
    server.always = Answer(200, {"Set-Cookie": "a=b"})
    await channel.send(message(server.url))
    await channel.send(message(server.url))
    assert "cookie" not in server.requests[1].headers


async def test_no_proxy_of_the_environment_is_used(
    server: ScriptedHttpServer, channel: WebhookChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert await channel.send(message(server.url)) == Receipt()


async def test_errors_show_neither_token_nor_password(
    server: ScriptedHttpServer, channel: WebhookChannel
) -> None:
    server.always = Answer(500)
    url = server.url.replace("http://", "http://user:pa55word@") + "/s3cret?key=t0ken"
    with pytest.raises(TransientError) as caught:
        await channel.send(message(url))
    assert not any(word in caught.value.message for word in ("pa55word", "s3cret", "t0ken"))
    assert len(caught.value.message) <= 500
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("always", [Answer(200, body=b"x" * 1000), Hang(), Flood(pause_seconds=0.01)])
async def test_cancelled_at_any_moment_nothing_stays_open(
    server: ScriptedHttpServer, channel: WebhookChannel, always: Behaviour
) -> None:
    server.always = always
    dice = random.Random(7)

    async def cut_short(seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await channel.send(message(server.url, delivery_id=uuid4()))
        except TimeoutError:
            pass

    for _ in range(5):
        await asyncio.gather(*(cut_short(dice.uniform(0, 0.03)) for _ in range(20)))
    server.always = Answer(204)
    assert await channel.send(message(server.url)) == Receipt()
    await channel.aclose()
    await server.connections.until(open=0)


async def test_after_closing_nothing_is_sent(server: ScriptedHttpServer, channel: WebhookChannel) -> None:
    await channel.aclose()
    with pytest.raises(TransientError):
        await channel.send(message(server.url))
    assert server.requests == []
