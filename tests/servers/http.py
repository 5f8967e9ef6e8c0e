"""A raw HTTP server: records what it is asked, answers, hangs, resets, trickles and garbles on request."""

import asyncio
import json
import socket
import ssl
import struct
from collections import deque
from typing import Any, Self

import msgspec

from tests.servers.connections import Connections


class Request(msgspec.Struct, frozen=True):
    """What was asked; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Answer(msgspec.Struct, frozen=True):
    """An ordinary answer. `hang_up`: close afterwards, without having said so."""

    status: int = 204
    headers: dict[str, str] = {}
    body: bytes = b""
    hang_up: bool = False


class Hang(msgspec.Struct, frozen=True):
    """Read the request and never answer."""


class Drop(msgspec.Struct, frozen=True):
    """Read the request and close."""


class Reset(msgspec.Struct, frozen=True):
    """Read the request and reset the connection."""


class Raw(msgspec.Struct, frozen=True):
    """Send these bytes and close."""

    content: bytes


class Flood(msgspec.Struct, frozen=True):
    """Answer with a body that does not end, `chunk` by `chunk`; with a pause, as a trickle."""

    status: int = 200
    chunk: bytes = b"x" * 16_384
    pause_seconds: float = 0.0


Behaviour = Answer | Hang | Drop | Reset | Raw | Flood


class ScriptedHttpServer:
    """`script` tells the next behaviours; after them `always`."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self.always: Behaviour = Answer()
        self.requests: list[Request] = []
        self.connections = Connections()
        self.asked = asyncio.Event()
        self.flooded = 0
        self._script: deque[Behaviour] = deque()
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def script(self, *behaviours: Behaviour) -> None:
        """What to do with the next requests, one after another."""
        self._script.extend(behaviours)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return self._server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
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
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections.opened()
        gone = asyncio.ensure_future(self._watch(writer))
        serving = asyncio.ensure_future(self._answer_all(reader, writer))
        try:
            await asyncio.wait([gone, serving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (gone, serving):
                task.cancel()
            await asyncio.gather(gone, serving, return_exceptions=True)
            writer.transport.abort()
            self._writers.discard(writer)
            self.connections.closed()

    async def _watch(self, writer: asyncio.StreamWriter) -> None:
        """Ends when the connection does, whatever the answer is doing."""
        await writer.wait_closed()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await _read(reader)) is not None:
            self.requests.append(request)
            behaviour = self._script.popleft() if self._script else self.always
            self.asked.set()
            match behaviour:
                case Answer(status, headers, body, hang_up):
                    head = {"Content-Length": str(len(body)), **headers} if status != 204 else headers
                    writer.write(_head(status, head) + body)
                    await writer.drain()
                    if hang_up:
                        return
                case Hang():
                    # The client's end of patience is an end of file.
                    await reader.read()
                    return
                case Drop():
                    return
                case Reset():
                    connection: socket.socket = writer.get_extra_info("socket")
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return
                case Raw(content):
                    writer.write(content)
                    await writer.drain()
                    writer.write_eof()
                    await reader.read()
                    return
                case Flood(status, chunk, pause_seconds):
                    writer.write(_head(status, {"Transfer-Encoding": "chunked"}))
                    while not writer.is_closing():
                        writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
                        await writer.drain()
                        self.flooded += len(chunk)
                        await asyncio.sleep(pause_seconds)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        first_byte = await reader.readexactly(1)
        if first_byte == b"\x16":
            # A TLS client that knocked at a plain door; servers hang up on it.
            return None
        head = (first_byte + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    method, target, _ = first.split(" ")
    return Request(method, target, headers, body)


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
