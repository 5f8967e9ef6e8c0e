"""Mails whose answer the built-in inbox keeps back, so that a send can be looked at while it lasts."""

import asyncio
from collections import defaultdict
from uuid import UUID


class Holds:
    """Who waits for an answer, by delivery."""

    def __init__(self) -> None:
        self._held: defaultdict[UUID | None, set[asyncio.Event]] = defaultdict(set)
        self._arrivals: defaultdict[UUID, set[asyncio.Future[None]]] = defaultdict(set)

    async def hold(self, delivery_id: UUID | None, *, limit_seconds: float) -> None:
        """Wait to be released.

        Raises:
            TimeoutError: nobody released it within the limit.
        """
        released = asyncio.Event()
        held = self._held[delivery_id]
        held.add(released)
        if delivery_id is not None:
            for waiter in self._arrivals.pop(delivery_id, ()):
                if not waiter.done():
                    waiter.set_result(None)
        try:
            async with asyncio.timeout(limit_seconds):
                await released.wait()
        finally:
            held.discard(released)
            if not held and self._held.get(delivery_id) is held:
                del self._held[delivery_id]

    async def arrival(self, delivery_id: UUID) -> None:
        """Wait until a mail of this delivery is held; at once if one is."""
        if delivery_id in self._held:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._arrivals[delivery_id].add(waiter)
        try:
            await waiter
        finally:
            waiting = self._arrivals.get(delivery_id)
            if waiting is not None:
                waiting.discard(waiter)
                if not waiting:
                    del self._arrivals[delivery_id]

    def release(self, delivery_id: UUID | None = None) -> None:
        """Let a delivery's mails be answered; without an id, all."""
        for key in [delivery_id] if delivery_id is not None else list(self._held):
            for event in self._held.pop(key, ()):
                event.set()
