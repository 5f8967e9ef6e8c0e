"""SMTP connections that are kept between sends, and how one is left."""

import asyncio
from collections import deque
from typing import cast

import msgspec
from aiosmtplib import SMTP


class Connection(msgspec.Struct):
    """A signed-in connection; `tainted` after a refusal: the server still holds half a transaction."""

    client: SMTP
    idle_since: float = 0.0
    used: bool = False
    tainted: bool = False


class KeptConnections:
    """At most `limit` idle connections, none idle for longer than `seconds`."""

    def __init__(self, *, seconds: float, limit: int) -> None:
        self._seconds = seconds
        self._limit = limit
        self._idle: deque[Connection] = deque()
        self._sweeper: asyncio.TimerHandle | None = None

    def take(self) -> Connection | None:
        """A connection that looks alive, if there is one."""
        oldest = asyncio.get_running_loop().time() - self._seconds
        # The one used last is the likeliest to live; the others may grow old and be dropped.
        while self._idle:
            connection = self._idle.pop()
            if connection.client.is_connected and connection.idle_since >= oldest:
                return connection
            leave(connection.client)
        return None

    def keep(self, connection: Connection) -> None:
        """Keep it for another send, or leave it where there are enough."""
        if not connection.client.is_connected or len(self._idle) >= self._limit:
            leave(connection.client)
            return
        loop = asyncio.get_running_loop()
        connection.used = True
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(self._seconds, self._sweep)

    def drop(self) -> None:
        """Leave every one."""
        while self._idle:
            leave(self._idle.pop().client)
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = None
        while self._idle and self._idle[0].idle_since <= loop.time() - self._seconds:
            leave(self._idle.popleft().client)
        if self._idle:
            self._sweeper = loop.call_at(self._idle[0].idle_since + self._seconds, self._sweep)


def leave(client: SMTP) -> None:
    """Close, with a QUIT whose answer nobody waits for."""
    if client.protocol is not None and client.is_connected:
        client.protocol.write(b"QUIT\r\n")
    client.close()


def abort(client: SMTP) -> None:
    """Close at once, whatever is still unsent."""
    # Not every loop's transports are asyncio's own classes, but all can abort.
    transport = cast("asyncio.WriteTransport | None", client.transport)
    client.close()
    if transport is not None:
        transport.abort()
