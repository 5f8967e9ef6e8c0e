"""From the enqueue to the settled row, while the queue is otherwise idle."""

import asyncio
import random
import time

from benchmarks.databases import Outbox, fresh_database
from benchmarks.drain import make_drain
from benchmarks.figures import Figure, percentile
from pillarbox.queue.wake import Announcer, Listener

_WAKE_UPS = 120
_POLLS = 40
_POLL_TICK_SECONDS = 0.2
_CHANNEL = "bench_wake"


async def figures(server_url: str) -> list[Figure]:
    """By NOTIFY, as between two processes, and by the tick alone."""
    async with fresh_database(server_url, "bench_latency") as url, Outbox(url) as outbox:
        woken = await _milliseconds(outbox, _WAKE_UPS, tick_seconds=15.0, wakes=True)
        polled = await _milliseconds(outbox, _POLLS, tick_seconds=_POLL_TICK_SECONDS, wakes=False)
    poll_unit = f"ms at a tick of {_POLL_TICK_SECONDS * 1000:.0f} ms"
    return [
        Figure(name="latency_wake_p50", value=percentile(woken, 50), unit="ms"),
        Figure(name="latency_wake_p99", value=percentile(woken, 99), unit="ms"),
        Figure(name="latency_poll_p50", value=percentile(polled, 50), unit=poll_unit),
        Figure(name="latency_poll_p99", value=percentile(polled, 99), unit=poll_unit),
    ]


async def _milliseconds(outbox: Outbox, count: int, *, tick_seconds: float, wakes: bool) -> list[float]:
    stopping, changed = asyncio.Event(), asyncio.Event()
    drain = make_drain(outbox, tick=tick_seconds)
    drain._on_change = changed.set  # pyright: ignore[reportPrivateUsage]
    listener = Listener(outbox.database, _CHANNEL, drain.wake.set)
    announcer = Announcer(outbox.database.lane(), _CHANNEL, lambda: None)
    drafts = await outbox.drafts(1)
    measured: list[float] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(drain.run(stopping))
        if wakes:
            group.create_task(listener.run(stopping))
            group.create_task(announcer.run(stopping))
        for sent in range(1, count + 1):
            # Beyond the announcer's pause, and at any phase of the tick.
            await asyncio.sleep(random.uniform(0.06, 0.06 + _POLL_TICK_SECONDS))
            begun = time.perf_counter()
            await outbox.send(drafts)
            if wakes:
                announcer.announce()
            while drain.status.sent < sent:
                changed.clear()
                await changed.wait()
            measured.append((time.perf_counter() - begun) * 1000)
        stopping.set()
        drain.wake.set()
    return measured
