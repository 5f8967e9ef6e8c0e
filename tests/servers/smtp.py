"""A real SMTP server that can be told, stage by stage, how to fail."""
# ruff: noqa: N802 (the library looks for these method names)

import asyncio
import ssl
from collections import defaultdict, deque
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Literal, Self

import msgspec
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from tests.servers.connections import Connections

Stage = Literal["connect", "ehlo", "starttls", "auth", "mail", "rcpt", "rset", "data", "dot"]


class Drop(msgspec.Struct, frozen=True):
    """Hang up without an answer."""


class Hang(msgspec.Struct, frozen=True):
    """Never answer."""


class Wait(msgspec.Struct, frozen=True):
    """Go on as usual, but only once the event is set."""

    event: asyncio.Event


Action = str | Drop | Hang | Wait | None
"""A reply of one's own, one of the above, or None for going on as usual."""


class Taken(msgspec.Struct, frozen=True):
    """A mail the server took."""

    sender: str
    recipients: list[str]
    content: bytes

    @property
    def mail(self) -> EmailMessage:
        """The mail, parsed."""
        return message_from_bytes(self.content, policy=policy.default)


class ScriptedSmtpServer:
    """`script` tells a stage its next actions; a stage without any goes on as usual.

    `always` tells it one for good. `users`, where given, is who may sign in.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, implicit_tls: bool = False) -> None:
        self.always: dict[Stage, Action] = {}
        self.users: dict[str, str] | None = None
        self.taken: list[Taken] = []
        self.commands: list[str] = []
        self.connections = Connections()
        self.reached: defaultdict[Stage, asyncio.Event] = defaultdict(asyncio.Event)
        self._script: defaultdict[Stage, deque[Action]] = defaultdict(deque)
        self._tls = tls
        self._implicit_tls = implicit_tls
        self._server: asyncio.Server | None = None
        self._sessions: set[_Session] = set()

    def script(self, stage: Stage, *actions: Action) -> None:
        """What to do the next times the stage is reached, one after another."""
        self._script[stage].extend(actions)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens, as the channel takes it."""
        return f"{'smtps' if self._implicit_tls else 'smtp'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Session(self, None if self._implicit_tls else self._tls),
            "127.0.0.1",
            0,
            ssl=self._tls if self._implicit_tls else None,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop listening and hang up on everybody."""
        if self._server is None:
            return
        self._server.close()
        self.hang_up()
        await self.connections.until(open=0)
        self._server = None

    def hang_up(self) -> None:
        """Drop every connection."""
        for session in list(self._sessions):
            session.drop()

    # -- for sessions ------------------------------------------------------------------------------

    def next_action(self, stage: Stage) -> Action:
        """What to do now."""
        self.reached[stage].set()
        actions = self._script[stage]
        return actions.popleft() if actions else self.always.get(stage)

    def opened(self, session: "_Session") -> None:
        """A session began."""
        self._sessions.add(session)
        self.connections.opened()

    def closed(self, session: "_Session") -> None:
        """A session ended."""
        if session in self._sessions:
            self._sessions.discard(session)
            self.connections.closed()


class _Session(SMTP):
    def __init__(self, owner: ScriptedSmtpServer, tls: ssl.SSLContext | None) -> None:
        signing_in = {"authenticator": _authenticator(owner), "auth_require_tls": False}
        super().__init__(
            _Handler(owner),
            hostname="scripted.example",
            enable_SMTPUTF8=True,
            tls_context=tls,
            loop=asyncio.get_running_loop(),
            **(signing_in if owner.users is not None else {"auth_exclude_mechanism": ["LOGIN", "PLAIN"]}),
        )
        self._owner = owner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        seen = self._handler_coroutine is not None
        super().connection_made(transport)
        if not seen:
            self._owner.opened(self)
            assert self._handler_coroutine is not None
            self._handler_coroutine.add_done_callback(self._end)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._owner.closed(self)

    def _end(self, handler: asyncio.Task[None]) -> None:
        if not handler.cancelled():
            handler.exception()
        if self.transport is not None:
            # The library leaves a connection half open whose client left before it was greeted.
            self.transport.close()

    def drop(self) -> None:
        """Hang up at once."""
        transport: Any = self.transport
        if transport is not None:
            transport.abort()

    async def act(self, stage: Stage) -> str | None:
        """Do what the script says; a reply of the script's is returned."""
        match self._owner.next_action(stage):
            case Drop():
                self.drop()
                await asyncio.Event().wait()
            case Hang():
                await asyncio.Event().wait()
            case Wait(event):
                await event.wait()
            case str() as reply:
                return reply
            case None:
                pass
        return None

    async def _acted(self, stage: Stage, arg: str | None) -> bool:
        self._owner.commands.append(f"{stage} {arg or ''}".strip())
        reply = await self.act(stage)
        if reply is None:
            return False
        await self.push(reply)
        if reply.startswith("421"):
            assert self.transport is not None
            self.transport.close()
        return True

    async def _handle_client(self) -> None:
        if await self._acted("connect", None):
            return
        await super()._handle_client()

    async def smtp_EHLO(self, hostname: str) -> None:
        if not await self._acted("ehlo", hostname):
            await super().smtp_EHLO(hostname)

    async def smtp_STARTTLS(self, arg: str) -> None:
        if not await self._acted("starttls", arg):
            await super().smtp_STARTTLS(arg)

    async def smtp_AUTH(self, arg: str) -> None:
        if not await self._acted("auth", None):
            await super().smtp_AUTH(arg)

    async def smtp_MAIL(self, arg: str | None) -> None:
        if not await self._acted("mail", arg):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg: str | None) -> None:
        if not await self._acted("rcpt", arg):
            await super().smtp_RCPT(arg)

    async def smtp_RSET(self, arg: str) -> None:
        if not await self._acted("rset", arg):
            await super().smtp_RSET(arg)

    async def smtp_DATA(self, arg: str) -> None:
        if not await self._acted("data", arg):
            await super().smtp_DATA(arg)


class _Handler:
    def __init__(self, owner: ScriptedSmtpServer) -> None:
        self._owner = owner

    async def handle_DATA(self, session: _Session, _state: Session, envelope: Envelope) -> str:
        reply = await session.act("dot")
        if reply is not None:
            return reply
        assert envelope.mail_from is not None
        assert envelope.original_content is not None
        self._owner.taken.append(
            Taken(envelope.mail_from, list(envelope.rcpt_tos), envelope.original_content)
        )
        return f"250 2.0.0 Ok: queued as Q{len(self._owner.taken)}"


def _authenticator(owner: ScriptedSmtpServer) -> Any:
    def authenticate(
        _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, data: Any
    ) -> Any:
        users = owner.users or {}
        known = users.get(data.login.decode()) == data.password.decode()
        return AuthResult(success=known, handled=False)

    return authenticate
