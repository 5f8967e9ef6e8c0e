"""The built-in inbox's SMTP server: a real one, in the application's own loop, with failures to practise on.

What the recipient's local part asks for (a `+tag` may follow):

| local part | answer |
|---|---|
| begins with `poison` | `550 5.1.1` to RCPT: no such mailbox |
| `flaky`, `flaky-N` | `451 4.3.0` after the message for the first attempt, the first N attempts; then taken |
| `hold` | the first attempt is answered once it is released; later ones are taken at once |
| any other | taken |
"""

import asyncio
import errno
import re
from collections.abc import Awaitable, Callable
from typing import cast

import structlog
from aiosmtpd.smtp import SMTP, Envelope, Session

from pillarbox.errors import ConfigurationError
from pillarbox.inbox.holds import Holds
from pillarbox.inbox.received import ReceivedMail, read_mail

log = structlog.get_logger(__name__)

Store = Callable[[ReceivedMail], Awaitable[None]]

_FLAKY = re.compile(r"flaky(?:-(\d{1,3}))?")
_IDENT = "Pillarbox inbox"
# Longer than any send lasts, shorter than a session may be silent.
_HOLD_SECONDS = 270.0
_SESSION_SECONDS = 300.0


class InboxSmtpServer:
    """Takes mail on a loopback port and passes it to `store`."""

    def __init__(
        self,
        host: str,
        port: int,
        store: Store,
        *,
        holds: Holds | None = None,
        hold_seconds: float = _HOLD_SECONDS,
        size_limit: int = 1_048_576,
    ) -> None:
        self._host = host
        self._port = port
        self._desk = _Desk(store, holds or Holds(), hold_seconds)
        self._size_limit = size_limit
        self._server: asyncio.Server | None = None
        self._sessions: set[_Session] = set()

    @property
    def port(self) -> int:
        """The port it listens on; the chosen one where 0 was asked for."""
        if self._server is None:
            return self._port
        return self._server.sockets[0].getsockname()[1]

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigurationError: the port cannot be had.
        """
        loop = asyncio.get_running_loop()
        self._desk.closed = False
        try:
            self._server = await loop.create_server(self._session, self._host, self._port)
        except OSError as error:
            raise ConfigurationError(
                f"the built-in inbox cannot listen on {self._host}:{self._port} ({_reason(error)}). Set "
                "PILLARBOX_INBOX_SMTP_PORT to another port (0 takes any free one), or PILLARBOX_SMTP_URL "
                "to a mail server of yours"
            ) from error

    async def stop(self) -> None:
        """Stop listening and end every session at once; a mail not yet answered is not taken."""
        if self._server is None:
            return
        self._server.close()
        self._desk.closed = True
        sessions = list(self._sessions)
        for session in sessions:
            session.abort()
        for session in sessions:
            await session.ended.wait()
        await self._server.wait_closed()
        self._server = None

    def _session(self) -> "_Session":
        return _Session(self._desk, self._sessions, self._size_limit)


class _Session(SMTP):
    """One connection; known to the server for as long as it lasts."""

    def __init__(self, desk: "_Desk", sessions: "set[_Session]", size_limit: int) -> None:
        super().__init__(
            desk,
            data_size_limit=size_limit,
            enable_SMTPUTF8=True,
            hostname="inbox.pillarbox.example",
            ident=_IDENT,
            timeout=_SESSION_SECONDS,
            loop=asyncio.get_running_loop(),
        )
        self._desk = desk
        self._sessions = sessions
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._sessions.add(self)
        assert self._handler_coroutine is not None
        self._handler_coroutine.add_done_callback(self._end)
        if self._desk.closed:
            self.abort()

    def abort(self) -> None:
        """Hang up without a word."""
        if self.transport is not None:
            # Not every loop's transports are asyncio's own classes, but all can abort.
            cast("asyncio.WriteTransport", self.transport).abort()

    def _end(self, handler: asyncio.Task[None]) -> None:
        self._sessions.discard(self)
        self.ended.set()
        if self.transport is not None:
            # One whose client left before it was greeted would stay half open until the session's limit.
            self.transport.close()
        # A client that hangs up between two words ends the task with an error nobody has to hear of.
        if not handler.cancelled():
            handler.exception()


class _Desk:
    """Answers the commands that matter; the names are those the SMTP library looks for."""

    def __init__(self, store: Store, holds: Holds, hold_seconds: float) -> None:
        self._store = store
        self._holds = holds
        self._hold_seconds = hold_seconds
        self.closed = False

    async def handle_RCPT(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if _local_part(address).startswith("poison"):
            return "550 5.1.1 no such mailbox (a rehearsal: every poison address answers this)"
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        content = envelope.original_content or b""
        mails = [read_mail(content, envelope.mail_from or "", recipient) for recipient in envelope.rcpt_tos]
        for mail in mails:
            local, attempt = _local_part(mail.recipient), mail.attempt or 1
            if (flaky := _FLAKY.fullmatch(local)) and attempt <= int(flaky[1] or 1):
                return f"451 4.3.0 try again (a rehearsal: attempt {attempt} is refused)"
            if local == "hold" and attempt == 1:
                try:
                    await self._holds.hold(mail.delivery_id, limit_seconds=self._hold_seconds)
                except TimeoutError:
                    return "451 4.3.0 try again (a rehearsal: held until nobody waited any longer)"
        try:
            for mail in mails:
                await self._store(mail)
        except Exception:
            log.exception("the inbox could not keep a mail", message_id=mails[0].message_id)
            return "451 4.3.0 the inbox could not keep the message; try again"
        return "250 2.0.0 OK"

    async def handle_exception(self, error: Exception) -> str:
        # An answer that finds nobody is no fault of the session's.
        if not isinstance(error, ConnectionError):
            log.error("an inbox session failed", error=repr(error))
        return "451 4.3.0 the inbox failed; try again"


def _local_part(address: str) -> str:
    return address.rpartition("@")[0].partition("+")[0].lower()


def _reason(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "the port is in use"
    if error.errno == errno.EACCES:
        return "ports below 1024 need more rights"
    return error.strerror or str(error)
