"""Serving the application on a socket that is ours before anything else is started."""

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import click
import uvicorn
from litestar import Litestar
from litestar.types import ASGIApp, Receive, Scope, Send

from pillarbox.app import create_app
from pillarbox.errors import PillarboxError
from pillarbox.settings import Settings


@contextmanager
def listen(settings: Settings) -> Generator[socket.socket]:
    """The listening socket.

    Raises:
        PillarboxError: the port is taken or the address is not this machine's.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise PillarboxError(
            f"cannot listen on {settings.host} port {settings.port} ({error.strerror or error}): "
            "set PILLARBOX_HOST and PILLARBOX_PORT to a free address, or stop what uses it"
        ) from error
    with listening:
        yield listening


def serve_on(listening: socket.socket, settings: Settings, database_url: str) -> None:
    """Serve until SIGINT or SIGTERM, then settle and stop."""
    server = _Server(
        uvicorn.Config(
            _answering_head(create_app(settings, database_url)),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
    )
    server.run(sockets=[listening])
    if not server.started:
        sys.exit(1)


def _answering_head(app: Litestar) -> ASGIApp:
    """HEAD as GET without its body (RFC 9110, 9.3.2), which the server leaves out. Not for streams."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and not scope["path"].endswith("/stream"):
            scope = cast("Scope", {**scope, "method": "GET"})
        await app(scope, receive, send)

    return answer


class _Server(uvicorn.Server):
    """Says its address once it answers there."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            click.echo(f"Pillarbox is at http://{shown}:{port}/  (Ctrl-C ends it)")
