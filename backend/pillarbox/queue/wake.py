"""Wake-ups between processes by LISTEN/NOTIFY: they save waiting, and losing one costs only waiting."""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from pillarbox.database.engine import Database
from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.queue.waiting import first_of

log = structlog.get_logger(__name__)

_ALIVE_EVERY_SECONDS = 15.0
_COALESCE_SECONDS = 0.05
_RECONNECT_SECONDS = (0.1, 0.5, 1.0, 2.0, 5.0)


class Listener:
    """Calls back whenever some process announces new rows, over one direct connection.

    A connection that has gone silent is found out by a question it has to answer, thrown away and
    replaced; meanwhile the drain's tick keeps the queue moving.
    """

    def __init__(self, database: Database, channel: str, on_wake: Callable[[], None]) -> None:
        self._database = database
        self._channel = channel
        self._on_wake = on_wake
        self.listening = False

    async def run(self, stopping: asyncio.Event) -> None:
        """Listen until stopping; without a direct connection there is nothing to do."""
        failures = 0
        while self._database.listens and not stopping.is_set():
            try:
                await self._listen(stopping)
                failures = 0
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                if failures == 0:
                    log.warning("wake-ups are lost for now; the tick goes on", error=str(error))
                await first_of(_RECONNECT_SECONDS[min(failures, len(_RECONNECT_SECONDS) - 1)], stopping)
                failures += 1

    async def _listen(self, stopping: asyncio.Event) -> None:
        connection = await self._database.connect_direct()
        gone = asyncio.Event()
        try:
            connection.add_termination_listener(lambda _: gone.set())
            async with asyncio.timeout(self._database.deadline_seconds):
                await connection.add_listener(self._channel, lambda *_: self._on_wake())
            self.listening = True
            # Whatever was announced while nobody listened.
            self._on_wake()
            while not stopping.is_set() and not gone.is_set():
                await first_of(_ALIVE_EVERY_SECONDS, stopping, gone)
                if not stopping.is_set() and not gone.is_set():
                    async with asyncio.timeout(self._database.deadline_seconds):
                        await connection.execute("SELECT 1")
        finally:
            self.listening = False
            connection.terminate()


class Announcer:
    """Tells the other processes that rows came, after the commit, at most once per 50 ms.

    NOTIFY takes a lock of the whole database at commit; so it never runs in a caller's transaction
    and a flood of enqueues makes few of them.
    """

    def __init__(self, lane: Lane, channel: str, on_wake: Callable[[], None]) -> None:
        self._lane = lane
        self._channel = channel
        self._on_wake = on_wake
        self._due = asyncio.Event()

    def announce(self) -> None:
        """Wake this process's drain at once and the others' soon. Call it after the commit."""
        self._on_wake()
        self._due.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Send the announcements until stopping."""
        async with self._lane:
            while not stopping.is_set():
                await first_of(None, self._due, stopping)
                if stopping.is_set():
                    return
                self._due.clear()
                try:
                    await self._lane.fetch("SELECT pg_notify($1, '')", self._channel)
                except (DatabaseUnreachableError, asyncpg.PostgresError) as error:
                    log.warning("an announcement was lost; the others' ticks find the rows", error=str(error))
                await first_of(_COALESCE_SECONDS, stopping)
