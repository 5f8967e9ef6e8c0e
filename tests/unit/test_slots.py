"""The slots: how much may be claimed, ahead and otherwise, so that every claimed row's lease holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from pillarbox.queue.claim import Report
from pillarbox.queue.runner import Runner
from pillarbox.queue.slots import Slots
from pillarbox.queue.table import Claimed
from pillarbox.queue.verdict import Done, Verdict
from pillarbox.settings import Settings


def rows(count: int) -> list[Claimed]:
    return [Claimed(uuid4(), 1, 5, 5) for _ in range(count)]


class Bench:
    """Slots with a handler of the test's own."""

    def __init__(self, handle: Callable[[], Awaitable[object]], **changes: Any) -> None:
        async def run(_: Claimed) -> Verdict:
            await handle()
            return Done()

        policy = msgspec.structs.replace(Settings(), **changes).delivery_policy
        self.lease = policy.lease
        self.batch = policy.batch_size
        self.reports: list[Report] = []
        self.freed = asyncio.Event()
        self.slots = Slots(policy, Runner(policy, run), self.reports.append, self.freed)

    def begin(self, count: int) -> None:
        self.slots.begin(rows(count), asyncio.get_running_loop().time())

    async def run_batch(self, count: int) -> None:
        """Begin a batch and see it end."""
        ended = len(self.reports) + count
        self.begin(count)
        async with asyncio.timeout(5):
            while len(self.reports) < ended or self.slots.busy:
                self.freed.clear()
                await self.freed.wait()


async def at_once() -> None:
    pass


async def test_idle_slots_claim_a_batch_and_busy_ones_nothing_while_rows_wait() -> None:
    bench = Bench(asyncio.Event().wait)
    assert bench.slots.room() == 25
    bench.begin(25)
    assert bench.slots.room() == 0
    await asyncio.sleep(0)
    assert bench.slots.room() == 0
    assert len(await bench.slots.end(0.01)) == 20


async def test_each_idle_slot_claims_for_its_own_waves_beside_hung_ones() -> None:
    bench = Bench(asyncio.Event().wait)
    bench.begin(2)
    await asyncio.sleep(0)
    assert bench.slots.room() == 3 * bench.lease.waves
    await bench.slots.end(0.01)


async def test_after_a_batch_that_ended_at_once_the_next_are_claimed_ahead() -> None:
    bench = Bench(at_once)
    await bench.run_batch(25)
    bench.begin(25)
    assert bench.slots.room() >= 25
    await bench.slots.end(1)


@pytest.mark.parametrize("lease", [81.0, 131.0, 300.0, 3000.0])
async def test_no_more_is_ever_held_than_the_lease_outlives_at_its_worst(lease: float) -> None:
    release = asyncio.Event()
    release.set()
    bench = Bench(release.wait, delivery_claim_lease=lease)
    await bench.run_batch(25)
    release.clear()
    held = 0
    while room := bench.slots.room():
        bench.begin(room)
        held += room
        await asyncio.sleep(0)
    waves = -(-held // bench.lease.concurrency)
    assert held >= 25
    assert waves * bench.lease.run_timeout_seconds + bench.lease.settle_margin_seconds < lease
    await bench.slots.end(0.01)


async def test_rows_that_do_not_end_at_once_end_the_claiming_ahead() -> None:
    release = asyncio.Event()
    release.set()
    bench = Bench(release.wait)
    await bench.run_batch(25)
    release.clear()
    bench.begin(10)
    bench.begin(10)
    assert bench.slots.room() == 0
    await bench.slots.end(0.01)
