"""Counts a server's connections, and waits for them to end."""

import asyncio


class Connections:
    """How many there have been and how many are open."""

    def __init__(self) -> None:
        self.total = 0
        self.open = 0
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self) -> None:
        """One more."""
        self.total += 1
        self.open += 1
        self._notify()

    def closed(self) -> None:
        """One less."""
        self.open -= 1
        self._notify()

    async def until(self, *, open: int, seconds: float = 5.0) -> None:
        """Wait until exactly so many are open."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: self.open == open)

    async def until_total(self, total: int, seconds: float = 5.0) -> None:
        """Wait until so many have been opened."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: self.total >= total)

    def _notify(self) -> None:
        task = asyncio.get_running_loop().create_task(self._wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()
