"""Email over SMTP: kept connections, one message at a time on each, every failure told apart."""

import asyncio
import re
import socket
import ssl

import msgspec
from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPHeloError,
    SMTPResponseException,
    SMTPServerDisconnected,
)
from aiosmtplib.response import SMTPResponse

from pillarbox.channels.contract import Message, Receipt, SendError, TransientError
from pillarbox.channels.mail import Mailbox, compose, parse_recipient, parse_sender
from pillarbox.channels.smtp_connections import Connection, KeptConnections, abort, leave
from pillarbox.channels.smtp_failures import lost, unreachable
from pillarbox.channels.smtp_replies import Stage, refusal
from pillarbox.channels.smtp_url import parse_relay
from pillarbox.channels.wording import one_line

_QUEUED_AS = re.compile(r"(?:queued as|\bid=)\s*([\w.@<>-]{2,120})", re.IGNORECASE)


class _StaleError(Exception):
    """A kept connection turned out to be gone before anything of the message was sent."""


class _Progress(msgspec.Struct):
    """How far a send has come, which decides what its failure means."""

    stage: Stage = Stage.CONNECT
    handed_over: bool = False


class SmtpChannel:
    """Hands mail to one relay.

    Connections are kept for a while, since most of a single send is spent on connecting. One the server
    dropped meanwhile costs no attempt: as long as nothing of the message was sent, a send on a kept
    connection begins once more on a new one.

    `timeout_seconds` bounds the whole send. The caller has its own deadline; a shorter one here tells more,
    since only the channel knows whether a message that got no answer may have been taken.
    """

    name = "email"

    def __init__(
        self,
        url: str,
        sender: str,
        *,
        timeout_seconds: float = 300.0,
        idle_seconds: float = 30.0,
        idle_limit: int = 8,
        stale_seconds: float = 3.0,
        tls_context: ssl.SSLContext | None = None,
    ) -> None:
        self._relay = parse_relay(url)
        self._sender = parse_sender(sender)
        self._timeout_seconds = timeout_seconds
        self._stale_seconds = stale_seconds
        self._tls_context = tls_context or self._relay.tls_context()
        self._hello = _hello_name()
        self._kept = KeptConnections(seconds=idle_seconds, limit=idle_limit)
        self._closed = False

    async def send(self, message: Message) -> Receipt:
        """Hand the message to the relay; its acceptance is the receipt.

        Raises:
            PermanentError: no repetition can succeed.
            TransientError: a later attempt may succeed; `smtp_outcome_unknown` when the message was handed
                over and no answer came, so that it may have been taken.
        """
        recipient = parse_recipient(message.address)
        content = compose(message, self._sender, recipient)
        progress = _Progress()
        if self._closed:
            raise TransientError("smtp_closed", "the channel is closed")
        try:
            async with asyncio.timeout(self._timeout_seconds):
                if kept := self._kept.take():
                    try:
                        return await self._transact(kept, recipient, content, progress)
                    except _StaleError:
                        # The others were kept as long: what ended this one has ended them.
                        self._kept.drop()
                        progress.stage = Stage.CONNECT
                connection = Connection(await self._connect(progress))
                return await self._transact(connection, recipient, content, progress)
        except TimeoutError as error:
            raise lost("smtp_timeout", progress.stage, progress.handed_over, self._relay.host) from error

    async def aclose(self) -> None:
        """Take leave of the server on every kept connection."""
        self._closed = True
        self._kept.drop()
        # The transports close in the loop's next turn.
        await asyncio.sleep(0)

    # -- one message -------------------------------------------------------------------------------

    async def _transact(
        self, connection: Connection, recipient: Mailbox, content: bytes, progress: _Progress
    ) -> Receipt:
        try:
            answer = await self._converse(connection, recipient, content, progress)
        except SMTPServerDisconnected as error:
            abort(connection.client)
            if connection.used and not progress.handed_over:
                raise _StaleError from error
            raise lost("smtp_disconnected", progress.stage, progress.handed_over, self._relay.host) from error
        except SMTPResponseException as error:
            # What is no SMTP reply at all.
            abort(connection.client)
            raise lost("smtp_protocol", progress.stage, progress.handed_over, self._relay.host) from error
        except SendError:
            connection.tainted = True
            self._release(connection)
            raise
        except BaseException:
            # Cancelled, out of time or stale: what the server answers next belongs to nobody.
            abort(connection.client)
            raise
        self._release(connection)
        match = _QUEUED_AS.search(answer.message)
        return Receipt(provider_message_id=match[1] if match else None)

    async def _converse(
        self, connection: Connection, recipient: Mailbox, content: bytes, progress: _Progress
    ) -> SMTPResponse:
        client = connection.client
        progress.stage = Stage.MAIL
        utf8 = recipient.utf8 or self._sender.utf8
        if utf8 and not client.supports_extension("smtputf8"):
            raise refusal(Stage.RCPT, 553, "5.6.7", "the server takes no addresses outside ASCII")
        options = [f"SIZE={len(content)}"] if client.supports_extension("size") else []
        options += ["SMTPUTF8"] if utf8 else []
        await self._open(connection, " ".join([f"FROM:<{self._sender.address}>", *options]))
        progress.stage = Stage.RCPT
        await self._command(connection, progress.stage, f"RCPT TO:<{recipient.address}>", (250, 251))
        progress.stage = Stage.DATA
        await self._command(connection, progress.stage, "DATA", (354,))
        if client.protocol is None:
            raise SMTPServerDisconnected("Connection lost")
        client.protocol.write(content)
        progress.handed_over = True
        answer = await client.protocol.read_response()
        if 200 <= answer.code < 300:
            return answer
        if not 400 <= answer.code < 600:
            raise SMTPResponseException(answer.code, answer.message)
        raise self._refused(progress.stage, answer.code, answer.message)

    async def _open(self, connection: Connection, sender: str) -> None:
        """Begin the transaction; on a kept connection silence means that nobody is there any more."""
        if not connection.used:
            await self._command(connection, Stage.MAIL, f"MAIL {sender}", (250,))
            return
        try:
            async with asyncio.timeout(self._stale_seconds):
                if connection.tainted and (await connection.client.execute_command(b"RSET")).code != 250:
                    raise _StaleError
                connection.tainted = False
                await self._command(connection, Stage.MAIL, f"MAIL {sender}", (250,))
        except TimeoutError as error:
            raise _StaleError from error

    async def _command(
        self, connection: Connection, stage: Stage, line: str, expected: tuple[int, ...]
    ) -> SMTPResponse:
        answer = await connection.client.execute_command(line.encode())
        self._expect(connection, stage, answer, expected)
        return answer

    def _expect(
        self, connection: Connection, stage: Stage, answer: SMTPResponse, expected: tuple[int, ...]
    ) -> None:
        if answer.code in expected:
            return
        if answer.code == 421 and connection.used and stage is not Stage.DATA:
            # Many servers take so many messages a connection and no more.
            raise _StaleError
        raise self._refused(stage, answer.code, answer.message)

    # -- connections -------------------------------------------------------------------------------

    async def _connect(self, progress: _Progress) -> SMTP:
        relay = self._relay
        client = SMTP(
            hostname=relay.host,
            port=relay.port,
            use_tls=relay.tls,
            start_tls=False if relay.tls else relay.starttls,
            tls_context=self._tls_context,
            local_hostname=self._hello,
            timeout=None,
        )
        try:
            await client.connect()
            if relay.user is not None:
                progress.stage = Stage.AUTH
                await client.login(relay.user, relay.password)
            elif client.is_ehlo_or_helo_needed:
                await _greet(client)
        except (SMTPException, OSError) as error:
            abort(client)
            raise self._not_connected(error, progress.stage) from error
        except BaseException:
            abort(client)
            raise
        return client

    def _not_connected(self, error: SMTPException | OSError, stage: Stage) -> SendError:
        match error:
            case SMTPResponseException(code=code, message=text):
                return self._refused(stage, code, text)
            case SMTPException(message=text) if not isinstance(error, OSError):
                # No reply to a command but the library's own finding about what the server offers.
                code = "smtp_auth_unsupported" if stage is Stage.AUTH else "smtp_tls"
                return TransientError(code, one_line(f"{self._relay.host}: {text}"))
            case _:
                return unreachable(error, stage, self._relay.host)

    def _refused(self, stage: Stage, code: int, text: str) -> SendError:
        said = f"{self._relay.host} answered {code} when {stage}: {text}"
        return refusal(stage, code, text, one_line(said, secrets=self._relay.secrets))

    def _release(self, connection: Connection) -> None:
        if self._closed:
            leave(connection.client)
        else:
            self._kept.keep(connection)


async def _greet(client: SMTP) -> None:
    try:
        await client.ehlo()
    except SMTPHeloError:
        if not client.is_connected:
            raise
        await client.helo()


def _hello_name() -> str:
    """What EHLO names: this host where it has a full name, else an address literal (RFC 5321, 4.1.3)."""
    host = socket.gethostname()
    return host if "." in host and host.isascii() else "[127.0.0.1]"
