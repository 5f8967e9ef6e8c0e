"""The places rows run in, the claimed rows that wait for one, and how many more may be claimed."""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic

from pillarbox.queue.claim import Report
from pillarbox.queue.policy import Lease, QueuePolicy
from pillarbox.queue.runner import Runner
from pillarbox.queue.table import RowT

_BRISK_SECONDS = 0.05
"""A batch that ended sooner is followed by others that were claimed before it ended."""


class Slots(Generic[RowT]):
    """Runs at most `policy.concurrency` rows at a time; `freed` is set whenever a slot falls free."""

    def __init__(
        self,
        policy: QueuePolicy,
        runner: Runner[RowT],
        take_report: Callable[[Report], None],
        freed: asyncio.Event,
    ) -> None:
        self._policy = policy
        self._runner = runner
        self._take_report = take_report
        self._freed = freed
        self._clock = asyncio.get_running_loop().time
        self._waiting: deque[tuple[RowT, float]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._begun_at = 0.0
        self._brisk = False
        self._most_held = policy.batch_size * _batches_within(policy.lease)

    @property
    def busy(self) -> bool:
        """Whether any claimed row has not ended."""
        return self._busy > 0

    def room(self) -> int:
        """How many rows may be claimed now.

        Free slots claim for themselves once nothing waits (`Lease.claim_size`), so a hung row holds one
        slot and nobody else. But while whole batches end in less time than a claim takes, waiting for the
        end of one before claiming the next would leave this process and the database idle by turns: then
        batches are claimed ahead, as many as can run one after the other within the lease.
        """
        idle = self._policy.concurrency - self._busy
        if self._brisk:
            return self._most_held - self._busy - len(self._waiting)
        return 0 if self._waiting else self._policy.lease.claim_size(idle)

    def begin(self, rows: Sequence[RowT], claimed_at: float) -> None:
        """Run these as slots fall free."""
        if self._busy:
            # Claimed ahead, and what they should have followed has not ended: no more of that.
            self._brisk = False
        self._begun_at = self._clock()
        self._waiting.extend((row, claimed_at) for row in rows)
        for _ in range(min(self._policy.concurrency - self._busy, len(rows))):
            self._busy += 1
            task = asyncio.ensure_future(self._slot())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def end(self, grace_seconds: float) -> list[RowT]:
        """Let what runs end within the grace, then break it off; answers the rows that were not begun."""
        unbegun = [row for row, _ in self._waiting]
        self._waiting.clear()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        return unbegun

    async def _slot(self) -> None:
        try:
            while self._waiting:
                self._take_report(await self._runner.report(*self._waiting.popleft()))
        finally:
            self._busy -= 1
            if not self._busy:
                ran_seconds = self._clock() - self._begun_at
                self._brisk = ran_seconds < _BRISK_SECONDS
            self._freed.set()


def _batches_within(lease: Lease) -> int:
    """How many full batches, one after the other, the lease outlives at their worst; at least one."""
    spare = lease.seconds - lease.settle_margin_seconds
    return max(1, math.ceil(spare / (lease.waves * lease.run_timeout_seconds)) - 1)
