"""Waiting for the first of several events."""

import asyncio


async def first_of(seconds: float | None, *events: asyncio.Event) -> None:
    """Return when one of the events is set, or after `seconds` (None: never by time)."""
    if any(event.is_set() for event in events):
        return
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiter in waiting:
            waiter.cancel()
