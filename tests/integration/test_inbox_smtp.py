"""The built-in inbox's SMTP server, spoken to by our own channel and by the standard library's client."""

import asyncio
import random
import smtplib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from uuid import UUID, uuid4

import psutil
import pytest
import uvloop

from pillarbox.channels.contract import Message, PermanentError, SendError, TransientError
from pillarbox.channels.smtp import SmtpChannel
from pillarbox.errors import ConfigurationError
from pillarbox.inbox.holds import Holds
from pillarbox.inbox.received import ReceivedMail
from pillarbox.inbox.smtp import InboxSmtpServer

SENDER = "Pillarbox <pillarbox@localhost>"


class Box:
    """Keeps what it is given, or fails to."""

    def __init__(self) -> None:
        self.mails: list[ReceivedMail] = []
        self.broken = False

    async def store(self, mail: ReceivedMail) -> None:
        if self.broken:
            raise RuntimeError("the disk is full")
        self.mails.append(mail)


@pytest.fixture
def box() -> Box:
    return Box()


@pytest.fixture
def holds() -> Holds:
    return Holds()


@pytest.fixture
async def inbox(box: Box, holds: Holds) -> AsyncIterator[InboxSmtpServer]:
    server = InboxSmtpServer("127.0.0.1", 0, box.store, holds=holds)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def channel(inbox: InboxSmtpServer) -> AsyncIterator[SmtpChannel]:
    channel = SmtpChannel(f"smtp://127.0.0.1:{inbox.port}", SENDER, timeout_seconds=10)
    yield channel
    await channel.aclose()


def message(
    address: str = "ada@inbox.pillarbox.example", attempt: int = 1, delivery_id: UUID | None = None
) -> Message:
    return Message(
        delivery_id=delivery_id or uuid4(),
        address=address,
        title="Grüße",
        body="Straße\n.\n",
        attempt=attempt,
    )


async def by_hand(port: int, recipient: str, content: bytes, sender: str = "eve@example.org") -> None:
    """Send through the standard library's client, in a thread of its own."""

    def send() -> None:
        with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
            client.sendmail(sender, [recipient], content)

    await asyncio.to_thread(send)


async def test_a_delivery_is_stored_as_it_was_sent(channel: SmtpChannel, box: Box) -> None:
    sent = message(attempt=2)
    await channel.send(sent)
    assert box.mails == [
        ReceivedMail(
            delivery_id=sent.delivery_id,
            attempt=2,
            sender="pillarbox@localhost",
            recipient="ada@inbox.pillarbox.example",
            subject="Grüße",
            body="Straße\n.",
            message_id=f"<{sent.delivery_id}@pillarbox>",
        )
    ]


async def test_an_address_beyond_ascii_is_stored(channel: SmtpChannel, box: Box) -> None:
    await channel.send(message("jörg@inbox.pillarbox.example"))
    assert box.mails[0].recipient == "jörg@inbox.pillarbox.example"


@pytest.mark.parametrize("local", ["poison", "Poison", "poison-7", "poisonous", "poison+tag"])
async def test_poison_is_refused_as_an_address_that_does_not_exist(
    channel: SmtpChannel, box: Box, local: str
) -> None:
    with pytest.raises(PermanentError) as caught:
        await channel.send(message(f"{local}@inbox.pillarbox.example"))
    assert caught.value.code == "smtp_550_5.1.1"
    assert box.mails == []


@pytest.mark.parametrize(
    ("local", "failures"), [("flaky", 1), ("flaky+tag", 1), ("flaky-1", 1), ("flaky-3", 3)]
)
async def test_flaky_fails_so_many_times_and_then_succeeds(
    channel: SmtpChannel, box: Box, local: str, failures: int
) -> None:
    for attempt in range(1, failures + 1):
        with pytest.raises(TransientError) as caught:
            await channel.send(message(f"{local}@inbox.pillarbox.example", attempt))
        assert caught.value.code == "smtp_451_4.3.0"
    assert box.mails == []
    await channel.send(message(f"{local}@inbox.pillarbox.example", failures + 1))
    assert len(box.mails) == 1


async def test_hold_keeps_the_answer_back_until_it_is_released(
    channel: SmtpChannel, box: Box, holds: Holds
) -> None:
    held, other = message("hold@inbox.pillarbox.example"), message("hold@inbox.pillarbox.example")
    sending = asyncio.ensure_future(channel.send(held))
    waiting = asyncio.ensure_future(channel.send(other))
    await holds.arrival(held.delivery_id)
    await holds.arrival(other.delivery_id)
    await holds.arrival(other.delivery_id)  # at once: it is here
    assert box.mails == []
    holds.release(held.delivery_id)
    await sending
    assert [mail.delivery_id for mail in box.mails] == [held.delivery_id]
    assert not waiting.done()
    holds.release()
    await waiting
    assert len(box.mails) == 2


async def test_a_later_attempt_of_a_held_delivery_is_taken_while_the_first_is_still_held(
    channel: SmtpChannel, box: Box, holds: Holds
) -> None:
    first = message("hold@inbox.pillarbox.example")
    sending = asyncio.ensure_future(channel.send(first))
    await holds.arrival(first.delivery_id)
    await channel.send(message("hold@inbox.pillarbox.example", 2, first.delivery_id))
    assert [mail.attempt for mail in box.mails] == [2]
    holds.release(first.delivery_id)
    await sending
    assert [mail.attempt for mail in box.mails] == [2, 1]


async def test_a_held_mail_whose_sender_goes_away_is_not_taken(
    channel: SmtpChannel, box: Box, holds: Holds
) -> None:
    held = message("hold@inbox.pillarbox.example")
    sending = asyncio.ensure_future(channel.send(held))
    await holds.arrival(held.delivery_id)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await channel.send(message())  # by now the server has noticed
    holds.release(held.delivery_id)
    await channel.send(message())
    assert [mail.delivery_id == held.delivery_id for mail in box.mails] == [False, False]


async def test_nothing_is_held_for_ever(box: Box) -> None:
    server = InboxSmtpServer("127.0.0.1", 0, box.store, hold_seconds=0.05)
    await server.start()
    channel = SmtpChannel(f"smtp://127.0.0.1:{server.port}", SENDER)
    with pytest.raises(TransientError) as caught:
        await channel.send(message("hold@inbox.pillarbox.example"))
    assert caught.value.code == "smtp_451_4.3.0"
    await channel.aclose()
    await server.stop()


async def test_a_mail_that_cannot_be_kept_is_to_be_sent_again(channel: SmtpChannel, box: Box) -> None:
    box.broken = True
    with pytest.raises(TransientError) as caught:
        await channel.send(message())
    assert caught.value.code == "smtp_451_4.3.0"
    assert "disk" not in caught.value.message
    box.broken = False
    await channel.send(message())
    assert len(box.mails) == 1


async def test_a_mail_beyond_the_limit_is_refused(box: Box) -> None:
    server = InboxSmtpServer("127.0.0.1", 0, box.store, size_limit=2000)
    await server.start()
    channel = SmtpChannel(f"smtp://127.0.0.1:{server.port}", SENDER)
    with pytest.raises(PermanentError) as caught:
        await channel.send(
            Message(delivery_id=uuid4(), address="ada@x", title="t", body="line\n" * 1000, attempt=1)
        )
    assert caught.value.code == "smtp_rejected_552"
    with pytest.raises(smtplib.SMTPResponseException) as refused:  # one that does not announce its size
        await asyncio.to_thread(_send_unannounced, server.port, b"line\r\n" * 1000)
    assert refused.value.smtp_code == 552
    assert box.mails == []
    await channel.aclose()
    await server.stop()


def _send_unannounced(port: int, content: bytes) -> None:
    with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
        client.helo()
        client.mail("eve@example.org")
        client.rcpt("ada@example.org")
        code, text = client.data(content)
        if code != 250:
            raise smtplib.SMTPResponseException(code, text)


@pytest.mark.parametrize(
    ("content", "subject", "body"),
    [
        (b"Subject: plain\r\n\r\nhello\r\n", "plain", "hello"),
        (b"no headers at all\r\n", "", "no headers at all"),
        (b"", "", ""),
        (b"Subject: =?x-unknown?q?=FF?=\r\n\r\nx", "\ufffd", "x"),
        (b"Content-Type: text/plain; charset=no-such\r\n\r\nx\xff", "", None),
        (b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\npart\r\n--b--\r\n", "", "part"),
        (b"Content-Type: multipart/mixed\r\n\r\nnothing\r\n", "", None),
        (b"Content-Type: image/png\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!\r\n", "", None),
        (b"Subject: n\x00l\r\n\r\na\x00b\r\n", "n\ufffdl", "a\ufffdb"),
        (b"Subject: \xff\xfe\r\n\r\n\xff\r\n", None, None),
        (b"Pillarbox-Delivery: not-a-uuid\r\nPillarbox-Attempt: -1\r\n\r\nx", "", "x"),
    ],
)
async def test_mail_of_any_shape_is_taken_as_text_that_can_be_kept(
    inbox: InboxSmtpServer, box: Box, content: bytes, subject: str | None, body: str | None
) -> None:
    await by_hand(inbox.port, "ada@example.org", content)
    (mail,) = box.mails
    assert (mail.delivery_id, mail.attempt) == (None, None)
    assert subject is None or mail.subject == subject
    assert body is None or mail.body == body
    for text in (mail.subject, mail.body):
        assert "\x00" not in text
        text.encode()


async def test_two_recipients_get_a_mail_each(inbox: InboxSmtpServer, box: Box) -> None:
    def send() -> None:
        with smtplib.SMTP("127.0.0.1", inbox.port, timeout=10) as client:
            client.sendmail("eve@example.org", ["ada@x.example", "bob@x.example"], b"Subject: s\r\n\r\nb")

    await asyncio.to_thread(send)
    assert [mail.recipient for mail in box.mails] == ["ada@x.example", "bob@x.example"]


async def test_a_port_in_use_names_the_setting(inbox: InboxSmtpServer, box: Box) -> None:
    second = InboxSmtpServer("127.0.0.1", inbox.port, box.store)
    with pytest.raises(ConfigurationError, match=r"in use.*PILLARBOX_INBOX_SMTP_PORT"):
        await second.start()
    await second.stop()


async def test_stopping_ends_open_sessions_at_once_and_frees_the_port(box: Box, holds: Holds) -> None:
    server = InboxSmtpServer("127.0.0.1", 0, box.store, holds=holds)
    await server.start()
    port = server.port
    channel = SmtpChannel(f"smtp://127.0.0.1:{port}", SENDER)
    held = message("hold@x.example")
    sending = asyncio.ensure_future(channel.send(held))
    await holds.arrival(held.delivery_id)
    _, idle = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(2):
        await server.stop()
    with pytest.raises(SendError) as caught:
        await sending
    assert caught.value.code == "smtp_outcome_unknown"
    idle.close()
    await channel.aclose()
    again = InboxSmtpServer("127.0.0.1", port, box.store)
    await again.start()
    await again.stop()
    assert box.mails == []


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_client_that_leaves_before_it_is_greeted_leaves_nothing_behind(
    run: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def scenario() -> None:
        box = Box()
        server = InboxSmtpServer("127.0.0.1", 0, box.store)
        await server.start()
        for _ in range(50):
            # The server accepts what has ended already.
            socket.create_connection(("127.0.0.1", server.port)).close()
        channel = SmtpChannel(f"smtp://127.0.0.1:{server.port}", SENDER)
        await channel.send(message())
        await channel.aclose()
        async with asyncio.timeout(5):
            while any(
                one.laddr.port == server.port and one.status in {"ESTABLISHED", "CLOSE_WAIT"}
                for one in psutil.Process().net_connections("tcp")
            ):
                await asyncio.sleep(0.01)  # what the kernel counts has no event
        await server.stop()

    run(scenario())


async def test_a_client_that_only_connects_or_talks_nonsense_harms_nobody(
    inbox: InboxSmtpServer, channel: SmtpChannel, box: Box
) -> None:
    dice = random.Random(3)

    def pester() -> None:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", inbox.port)) as client:
                client.sendall(dice.randbytes(dice.randrange(0, 5000)) + b"\r\n")

    await asyncio.to_thread(pester)
    await channel.send(message())
    assert len(box.mails) == 1
