"""A loopback proxy that can fall silent: connections stay open and nothing passes any more."""

import asyncio
from urllib.parse import urlsplit, urlunsplit


class SilentProxy:
    """Forwards to PostgreSQL until `fall_silent`; `speak` lets new connections through again.

    A connection that was open during the silence stays silent, as behind a dropped NAT entry.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._parts = parts
        self._silent = False
        self._muted: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.accepted = 0
        self.url = ""

    async def __aenter__(self) -> "SilentProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        credentials = self._parts.netloc.rpartition("@")[0]
        self.url = urlunsplit(self._parts._replace(netloc=f"{credentials}@127.0.0.1:{port}"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fall_silent(self) -> None:
        """From now on nothing passes, on old connections and new ones."""
        self._silent = True
        for muted in self._muted:
            muted.set()

    def speak(self) -> None:
        """New connections pass again."""
        self._silent = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.accepted += 1
        muted = asyncio.Event()
        self._muted.add(muted)
        if self._silent:
            muted.set()
        upstream_reader, upstream_writer = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(
                self._pump(reader, upstream_writer, muted), self._pump(upstream_reader, writer, muted)
            )
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            upstream_writer.close()
            writer.close()
            self._muted.discard(muted)
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, muted: asyncio.Event
    ) -> None:
        while data := await reader.read(65536):
            if muted.is_set():
                await asyncio.Event().wait()
            writer.write(data)
            await writer.drain()
        writer.close()
