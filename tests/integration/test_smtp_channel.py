"""The SMTP channel against a real server told, stage by stage, how to fail."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from email import message_from_bytes
from uuid import UUID, uuid4

import pytest

from pillarbox.channels.contract import Message, PermanentError, SendError, TransientError
from pillarbox.channels.smtp import SmtpChannel
from pillarbox.channels.smtp_url import parse_relay
from pillarbox.errors import ConfigurationError
from tests.servers.certificates import LoopbackCertificate
from tests.servers.smtp import Action, Drop, Hang, ScriptedSmtpServer, Stage, Wait

SENDER = "Pillarbox <pillarbox@example.org>"


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSmtpServer]:
    async with ScriptedSmtpServer() as server:
        yield server


@pytest.fixture
async def channel(server: ScriptedSmtpServer) -> AsyncIterator[SmtpChannel]:
    channel = SmtpChannel(server.url, SENDER, timeout_seconds=5)
    yield channel
    await channel.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> LoopbackCertificate:
    return LoopbackCertificate.make(tmp_path_factory.mktemp("certificate"))


def message(
    address: str = "ada@example.org",
    *,
    title: str = "Hello",
    body: str = "A line.",
    delivery_id: UUID | None = None,
    attempt: int = 1,
) -> Message:
    return Message(
        delivery_id=delivery_id or uuid4(), address=address, title=title, body=body, attempt=attempt
    )


async def failure(channel: SmtpChannel, sent: Message | None = None) -> SendError:
    with pytest.raises(SendError) as caught:
        await channel.send(sent or message())
    assert len(caught.value.message) <= 500
    assert caught.value.message.isprintable()
    return caught.value


# -- what arrives ----------------------------------------------------------------------------------


async def test_a_delivery_arrives_with_its_id(server: ScriptedSmtpServer, channel: SmtpChannel) -> None:
    sent = message(title="Grüße 👩‍👧 " * 12, body="Straße\n.\n..zwei\n" + "x" * 2000 + "\n", attempt=3)
    receipt = await channel.send(sent)
    assert receipt.provider_message_id == "Q1"
    (taken,) = server.taken
    assert (taken.sender, taken.recipients) == ("pillarbox@example.org", ["ada@example.org"])
    assert taken.mail["message-id"] == f"<{sent.delivery_id}@pillarbox>"
    assert taken.mail["pillarbox-delivery"] == str(sent.delivery_id)
    assert taken.mail["pillarbox-attempt"] == "3"
    assert taken.mail["from"] == SENDER
    assert taken.mail["to"] == "ada@example.org"
    assert taken.mail["subject"] == sent.title.strip()
    assert taken.mail.get_content().replace("\r\n", "\n") == sent.body
    assert max(map(len, taken.content.split(b"\r\n"))) <= 998
    assert taken.content.isascii()


@pytest.mark.parametrize(
    "title",
    [
        "Hi\r\nBcc: eve@example.org",
        "Hi\nBcc: eve@example.org\n\nbody",
        "Hi\rBcc: eve@example.org",
        "Hi\x0bBcc: eve@example.org\x1c\x85\u2028",
        "=?utf-8?q?Hi=0D=0ABcc:_eve@example.org?=",
        "=?utf-8?b?" + "SGkNCkJjYzogZXZlQGV4YW1wbGUub3Jn" + "?=",
        "ü" * 500 + "\r\nBcc: eve@example.org",
        "x" * 2000,
        "Hi\x00\ud800",
    ],
)
async def test_a_title_cannot_add_a_header(
    server: ScriptedSmtpServer, channel: SmtpChannel, title: str
) -> None:
    await channel.send(message(title=title))
    (taken,) = server.taken
    raw = message_from_bytes(taken.content)  # as a reader that decodes nothing sees it
    assert raw["bcc"] is None
    assert raw.get_payload() == "A line.\r\n"
    assert sorted(raw.keys()) == sorted(set(raw.keys()))
    assert max(map(len, taken.content.split(b"\r\n"))) <= 998


@pytest.mark.parametrize("title", ["=?utf-8?q?caf=C3=A9?=", "=?utf-8?q?caf=C3=A9?= means café"])
async def test_a_title_that_looks_encoded_arrives_as_the_text_it_is(
    server: ScriptedSmtpServer, channel: SmtpChannel, title: str
) -> None:
    await channel.send(message(title=title))
    assert server.taken[0].mail["subject"] == title


@pytest.mark.parametrize(
    "body", ["a\r\n.\r\nMAIL FROM:<x@y>\r\n", "a\n.\nb", "a\r.\rb", ".", "", "\n\n", "ä\r\n.\r\n"]
)
async def test_a_body_cannot_end_the_message(
    server: ScriptedSmtpServer, channel: SmtpChannel, body: str
) -> None:
    await channel.send(message(body=body))
    (taken,) = server.taken
    text = taken.mail.get_content().replace("\r\n", "\n")
    assert text.rstrip("\n") == body.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    assert [command.split()[0] for command in server.commands] == ["connect", "ehlo", "mail", "rcpt", "data"]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "ada",
        "@example.org",
        "ada@",
        "ada@@example.org",
        "a@b@c",
        "ada@example.org>\r\nRCPT TO:<eve@example.org",
        "ada@example.org, eve@example.org",
        "Ada <ada@example.org>",
        "ada@exa mple.org",
        "ada\x00@example.org",
        "ada@-ü-.org",
        "\u200bada@example.org",
        "a" * 300 + "@example.org",
        "\ud800@example.org",
    ],
)
async def test_a_malformed_address_is_permanent_and_never_sent(
    server: ScriptedSmtpServer, channel: SmtpChannel, address: str
) -> None:
    error = await failure(channel, message(address))
    assert (type(error), error.code) == (PermanentError, "smtp_bad_address")
    assert server.commands == []


async def test_addresses_beyond_ascii_are_carried(server: ScriptedSmtpServer, channel: SmtpChannel) -> None:
    await channel.send(message("ada@bücher.example"))
    await channel.send(message("jörg@bücher.example"))
    assert [taken.recipients[0] for taken in server.taken] == [
        "ada@xn--bcher-kva.example",
        "jörg@xn--bcher-kva.example",
    ]
    assert "SMTPUTF8" not in server.commands[2]
    assert "SMTPUTF8" in server.commands[5]


async def test_an_address_the_relay_cannot_carry_is_permanent(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    server.script("ehlo", "250 plain")
    error = await failure(channel, message("jörg@example.org"))
    assert (type(error), error.code) == (PermanentError, "smtp_rejected_553_5.6.7")


# -- what is refused -------------------------------------------------------------------------------

PERMANENT, TRANSIENT = PermanentError, TransientError

REFUSALS: list[tuple[Stage, Action, type[SendError], str]] = [
    ("connect", "554 5.7.1 blocked", TRANSIENT, "smtp_554"),
    ("connect", "421 4.3.2 too busy", TRANSIENT, "smtp_421_4.3.2"),
    ("connect", "HTTP/1.1 400 Bad Request", TRANSIENT, "smtp_protocol"),
    ("connect", Drop(), TRANSIENT, "smtp_disconnected"),
    ("ehlo", "421 4.3.2 too busy", TRANSIENT, "smtp_421_4.3.2"),
    ("ehlo", Drop(), TRANSIENT, "smtp_disconnected"),
    ("mail", "451 4.3.0 later", TRANSIENT, "smtp_451_4.3.0"),
    ("mail", "421 4.7.0 too many", TRANSIENT, "smtp_421_4.7.0"),
    ("mail", "530 5.7.0 sign in first", TRANSIENT, "smtp_530"),
    ("mail", "553 5.7.1 not your sender", TRANSIENT, "smtp_sender_553_5.7.1"),
    ("mail", "552 5.3.4 too large", PERMANENT, "smtp_rejected_552_5.3.4"),
    ("mail", "552 too large", PERMANENT, "smtp_rejected_552"),
    ("mail", Drop(), TRANSIENT, "smtp_disconnected"),
    ("rcpt", "550 5.1.1 no such user", PERMANENT, "smtp_550_5.1.1"),
    ("rcpt", "550-5.1.1 no such\r\n550 5.1.1 user", PERMANENT, "smtp_550_5.1.1"),
    ("rcpt", "553 5.1.3 bad syntax", PERMANENT, "smtp_553_5.1.3"),
    ("rcpt", "550 5.2.1 disabled", PERMANENT, "smtp_550_5.2.1"),
    ("rcpt", "550 no such user", PERMANENT, "smtp_550"),
    ("rcpt", "551 gone away", PERMANENT, "smtp_551"),
    ("rcpt", "553 not allowed", PERMANENT, "smtp_553"),
    ("rcpt", "550 5.7.1 relaying denied", PERMANENT, "smtp_policy_550_5.7.1"),
    ("rcpt", "554 5.7.1 rejected", PERMANENT, "smtp_policy_554_5.7.1"),
    ("rcpt", "554 relay access denied", PERMANENT, "smtp_policy_554"),
    ("rcpt", "550 4.1.1 confused", PERMANENT, "smtp_550"),
    ("rcpt", "552 5.2.2 mailbox full", TRANSIENT, "smtp_552_5.2.2"),
    ("rcpt", "552 mailbox full", TRANSIENT, "smtp_552"),
    ("rcpt", "450 4.2.0 greylisted", TRANSIENT, "smtp_450_4.2.0"),
    ("rcpt", "451 try again", TRANSIENT, "smtp_451"),
    ("rcpt", "421 closing", TRANSIENT, "smtp_421"),
    ("rcpt", "535 5.7.8 signed out", TRANSIENT, "smtp_535"),
    ("rcpt", "220 what", TRANSIENT, "smtp_protocol"),
    ("rcpt", "gibberish", TRANSIENT, "smtp_protocol"),
    ("rcpt", Drop(), TRANSIENT, "smtp_disconnected"),
    ("data", "451 4.3.0 later", TRANSIENT, "smtp_451_4.3.0"),
    ("data", "554 no valid recipients", PERMANENT, "smtp_policy_554"),
    ("data", Drop(), TRANSIENT, "smtp_disconnected"),
    ("dot", "451 4.3.0 disk full", TRANSIENT, "smtp_451_4.3.0"),
    ("dot", "421 4.3.2 shutting down", TRANSIENT, "smtp_421_4.3.2"),
    ("dot", "554 5.7.1 spam", PERMANENT, "smtp_policy_554_5.7.1"),
    ("dot", "550 5.1.1 no such user", PERMANENT, "smtp_550_5.1.1"),
    ("dot", "552 5.3.4 too large", PERMANENT, "smtp_rejected_552_5.3.4"),
    ("dot", "550 5.6.0 bad content", PERMANENT, "smtp_rejected_550_5.6.0"),
    ("dot", "554 5.6.0 bad content", PERMANENT, "smtp_rejected_554_5.6.0"),
    ("dot", "gibberish", TRANSIENT, "smtp_outcome_unknown"),
    ("dot", Drop(), TRANSIENT, "smtp_outcome_unknown"),
]


@pytest.mark.parametrize(("stage", "action", "kind", "code"), REFUSALS)
async def test_a_failure_is_told_apart(
    server: ScriptedSmtpServer, stage: Stage, action: Action, kind: type[SendError], code: str
) -> None:
    channel = SmtpChannel(server.url, SENDER, timeout_seconds=5)
    server.script(stage, action)
    error = await failure(channel)
    assert (type(error), error.code) == (kind, code)
    assert "127.0.0.1" in error.message
    # The channel is none the worse for it.
    await channel.send(message())
    assert len(server.taken) == 1
    await channel.aclose()
    await server.connections.until(open=0)


@pytest.mark.parametrize("stage", ["connect", "ehlo", "mail", "rcpt", "data", "dot"])
async def test_silence_is_a_timeout_and_unknown_once_the_message_was_handed_over(
    server: ScriptedSmtpServer, stage: Stage
) -> None:
    channel = SmtpChannel(server.url, SENDER, timeout_seconds=0.3)
    server.script(stage, Hang())
    error = await failure(channel)
    assert (type(error), error.code) == (
        TransientError,
        "smtp_outcome_unknown" if stage == "dot" else "smtp_timeout",
    )
    await server.connections.until(open=0)


async def test_a_slow_greeting_is_waited_for(server: ScriptedSmtpServer, channel: SmtpChannel) -> None:
    greeting = asyncio.Event()
    server.script("connect", Wait(greeting))
    sending = asyncio.ensure_future(channel.send(message()))
    await server.reached["connect"].wait()
    assert not sending.done()
    greeting.set()
    await sending
    assert len(server.taken) == 1


@pytest.mark.parametrize("option", ["", "?starttls=off"])
async def test_a_server_that_knows_no_extensions_is_served(server: ScriptedSmtpServer, option: str) -> None:
    server.always["ehlo"] = "502 5.5.1 what"
    channel = SmtpChannel(server.url + option, SENDER)
    await channel.send(message())
    assert len(server.taken) == 1
    await channel.aclose()


async def test_nobody_listening_is_tried_again() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        error = await failure(SmtpChannel(f"smtp://{host}:{port}", SENDER))
        assert (type(error), error.code) == (TransientError, "smtp_refused")


async def test_a_name_that_does_not_resolve_is_tried_again() -> None:
    error = await failure(SmtpChannel("smtp://nowhere.invalid:25", SENDER))
    assert (type(error), error.code) == (TransientError, "smtp_dns")


async def test_a_reply_is_shown_short_on_one_line(server: ScriptedSmtpServer, channel: SmtpChannel) -> None:
    lines = [f"550-5.1.1 line {number} \x07 {'x' * 60}" for number in range(40)]
    server.script("rcpt", "\r\n".join([*lines, "550 5.1.1 end"]))
    error = await failure(channel)
    assert error.code == "smtp_550_5.1.1"
    assert len(error.message) == 500


# -- signing in and encryption ---------------------------------------------------------------------


async def test_who_may_sign_in_sends(server: ScriptedSmtpServer) -> None:
    server.users = {"me@x": "p@ss:word/ü"}
    channel = SmtpChannel(f"smtp://me%40x:p%40ss%3Aword%2F%C3%BC@127.0.0.1:{server.port}", SENDER)
    await channel.send(message())
    assert len(server.taken) == 1
    await channel.aclose()


async def test_a_refused_sign_in_does_not_blame_the_recipient(server: ScriptedSmtpServer) -> None:
    server.users = {"me": "right"}
    channel = SmtpChannel(f"smtp://me:hunter2hunter2@127.0.0.1:{server.port}", SENDER)
    error = await failure(channel)
    assert (type(error), error.code) == (TransientError, "smtp_535")
    await server.connections.until(open=0)


async def test_a_server_that_echoes_the_password_does_not_make_us_show_it(server: ScriptedSmtpServer) -> None:
    server.users = {}
    server.always["auth"] = "535 5.7.8 bad: hunter2 / AG1lAGh1bnRlcjI= / aHVudGVyMg=="
    error = await failure(SmtpChannel(f"smtp://me:hunter2@127.0.0.1:{server.port}", SENDER))
    assert error.code == "smtp_535"
    assert not any(word in error.message for word in ("hunter2", "AG1lAGh1bnRlcjI=", "aHVudGVyMg=="))


async def test_no_sign_in_offered_is_our_configuration(server: ScriptedSmtpServer) -> None:
    error = await failure(SmtpChannel(f"smtp://me:pw@127.0.0.1:{server.port}", SENDER))
    assert (type(error), error.code) == (TransientError, "smtp_auth_unsupported")


async def test_starttls_is_used_where_offered(certificate: LoopbackCertificate) -> None:
    async with ScriptedSmtpServer(tls=certificate.server_context()) as server:
        channel = SmtpChannel(server.url, SENDER)
        await channel.send(message())
        assert "starttls" in server.commands
        await channel.aclose()


async def test_starttls_can_be_switched_off(certificate: LoopbackCertificate) -> None:
    async with ScriptedSmtpServer(tls=certificate.server_context()) as server:
        channel = SmtpChannel(f"{server.url}?starttls=off", SENDER)
        await channel.send(message())
        assert "starttls" not in server.commands
        await channel.aclose()


async def test_required_starttls_is_not_done_without(server: ScriptedSmtpServer) -> None:
    error = await failure(SmtpChannel(f"{server.url}?starttls=required", SENDER))
    assert (type(error), error.code) == (TransientError, "smtp_tls")
    assert not any(command.startswith("mail") for command in server.commands)


@pytest.mark.parametrize("form", ["smtp", "smtps"])
async def test_encryption_that_is_asked_for_checks_the_certificate(
    certificate: LoopbackCertificate, form: str
) -> None:
    tls = certificate.server_context()
    async with ScriptedSmtpServer(tls=tls, implicit_tls=form == "smtps") as server:
        url = server.url if form == "smtps" else f"{server.url}?starttls=required"
        error = await failure(SmtpChannel(url, SENDER))
        assert (type(error), error.code) == (TransientError, "smtp_tls")
        trusting = SmtpChannel(url, SENDER, tls_context=certificate.trusting_context())
        await trusting.send(message())
        assert len(server.taken) == 1
        await trusting.aclose()
        await server.connections.until(open=0)


async def test_tls_towards_a_plain_port_is_tried_again(server: ScriptedSmtpServer) -> None:
    error = await failure(SmtpChannel(server.url.replace("smtp://", "smtps://"), SENDER))
    assert (type(error), error.code) == (TransientError, "smtp_tls")


async def test_starttls_refused_is_tried_again(certificate: LoopbackCertificate) -> None:
    async with ScriptedSmtpServer(tls=certificate.server_context()) as server:
        server.script("starttls", "454 4.7.0 TLS not available")
        error = await failure(SmtpChannel(server.url, SENDER))
        assert (type(error), error.code) == (TransientError, "smtp_454_4.7.0")


def test_a_password_is_not_sent_to_another_host_in_the_clear() -> None:
    assert parse_relay("smtp://me:pw@mail.example.org").starttls is True
    assert parse_relay("smtp://mail.example.org").starttls is None
    assert parse_relay("smtp://me:pw@127.0.0.1").starttls is None
    assert parse_relay("smtp://me:pw@mail.example.org?starttls=off").starttls is False


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mail.example.org",
        "http://mail.example.org",
        "smtp://",
        "smtp://:s3cret@",
        "smtp://me:s3cret@mail:99999",
        "smtp://me:s3cret@mail:0",
        "smtp://me:s3cret@mail/path",
        "smtp://me:s3cret@mail?starttls=maybe",
        "smtp://me:s3cret@mail?startls=off",
        "smtps://me:s3cret@mail?starttls=off",
        "smtp://me:s3cret@[::1",
    ],
)
def test_a_malformed_url_is_refused_at_the_start_and_never_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="PILLARBOX_SMTP_URL") as caught:
        SmtpChannel(url, SENDER)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("sender", ["", "Pillarbox", "a@b@c", "Pillarbox <>", "a@b\r\nBcc: c@d"])
def test_a_malformed_sender_is_refused_at_the_start(sender: str) -> None:
    with pytest.raises(ConfigurationError, match="PILLARBOX_SMTP_FROM"):
        SmtpChannel("smtp://localhost", sender)


# -- kept connections ------------------------------------------------------------------------------


async def test_sends_that_follow_each_other_share_a_connection(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    for _ in range(5):
        await channel.send(message())
    assert (server.connections.total, len(server.taken)) == (1, 5)


async def test_a_refused_recipient_leaves_the_connection_usable(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    server.script("rcpt", "550 5.1.1 no such user")
    await failure(channel)
    await channel.send(message())
    assert server.connections.total == 1
    assert "rset" in server.commands


@pytest.mark.parametrize(
    ("stage", "action"),
    [
        ("mail", Drop()),
        ("mail", Hang()),
        ("mail", "421 4.7.0 enough messages on this connection"),
        ("rcpt", Drop()),
        ("rcpt", "421 4.7.0 closing"),
        ("data", Drop()),
    ],
)
async def test_a_kept_connection_that_is_gone_costs_no_attempt(
    server: ScriptedSmtpServer, stage: Stage, action: Action
) -> None:
    channel = SmtpChannel(server.url, SENDER, timeout_seconds=5, stale_seconds=0.2)
    await channel.send(message())
    server.script(stage, action)
    await channel.send(message())
    assert (server.connections.total, len(server.taken)) == (2, 2)
    await channel.aclose()
    await server.connections.until(open=0)


async def test_a_kept_connection_the_server_closed_in_between_costs_no_attempt(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    await channel.send(message())
    server.hang_up()
    await server.connections.until(open=0)
    await channel.send(message())
    assert len(server.taken) == 2


async def test_what_was_handed_over_is_not_sent_again_by_itself(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    await channel.send(message())
    server.script("dot", Drop())
    assert (await failure(channel)).code == "smtp_outcome_unknown"
    assert len(server.taken) == 1
    assert server.connections.total == 1


async def test_a_relay_that_only_hangs_up_is_tried_once_more_and_not_for_ever(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    await channel.send(message())
    server.always["mail"] = Drop()
    assert (await failure(channel)).code == "smtp_disconnected"
    assert server.connections.total == 2


async def test_an_idle_connection_is_left_after_a_while(server: ScriptedSmtpServer) -> None:
    channel = SmtpChannel(server.url, SENDER, idle_seconds=0.05)
    await asyncio.gather(*(channel.send(message()) for _ in range(3)))
    assert server.connections.total == 3
    await server.connections.until(open=0)


async def test_no_more_connections_are_kept_than_allowed(server: ScriptedSmtpServer) -> None:
    channel = SmtpChannel(server.url, SENDER, idle_limit=2)
    await asyncio.gather(*(channel.send(message()) for _ in range(6)))
    await server.connections.until(open=2)
    await channel.aclose()
    await server.connections.until(open=0)


async def test_after_closing_nothing_is_sent(server: ScriptedSmtpServer, channel: SmtpChannel) -> None:
    await channel.send(message())
    await channel.aclose()
    await server.connections.until(open=0)
    assert (await failure(channel)).code == "smtp_closed"


async def test_a_send_that_ends_after_closing_keeps_no_connection(
    server: ScriptedSmtpServer, channel: SmtpChannel
) -> None:
    answer = asyncio.Event()
    server.script("dot", Wait(answer))
    sending = asyncio.ensure_future(channel.send(message()))
    await server.reached["dot"].wait()
    await channel.aclose()
    answer.set()
    await sending
    await server.connections.until(open=0)


# -- cancellation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["connect", "ehlo", "mail", "rcpt", "data", "dot"])
async def test_cancelled_at_a_stage_the_connection_is_gone_at_once(
    server: ScriptedSmtpServer, channel: SmtpChannel, stage: Stage
) -> None:
    server.script(stage, Hang())
    sending = asyncio.ensure_future(channel.send(message()))
    await server.reached[stage].wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await server.connections.until(open=0)


@pytest.mark.parametrize("encrypted", [False, True])
async def test_cancelled_at_any_moment_nothing_stays_open(
    certificate: LoopbackCertificate, encrypted: bool
) -> None:
    dice = random.Random(7)
    async with ScriptedSmtpServer(tls=certificate.server_context() if encrypted else None) as server:
        channel = SmtpChannel(server.url, SENDER)
        sent: set[UUID] = set()

        async def cut_short(seconds: float) -> None:
            one = message()
            try:
                async with asyncio.timeout(seconds):
                    await channel.send(one)
                sent.add(one.delivery_id)
            except TimeoutError:
                pass

        for _ in range(10):
            await asyncio.gather(*(cut_short(dice.uniform(0, 0.1)) for _ in range(20)))
        taken = {UUID(taken.mail["pillarbox-delivery"]) for taken in server.taken}
        assert sent <= taken  # no receipt for what was not taken, nobody else's answer taken for ours
        for _ in range(3):
            await channel.send(message())
        await channel.aclose()
        await server.connections.until(open=0)
