"""The drain: claim, run, settle, until nothing is due; as a resident loop or once."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Generic, Literal

import asyncpg
import msgspec
import structlog

from pillarbox.database.lane import DatabaseUnreachableError, Lane
from pillarbox.errors import PillarboxError
from pillarbox.queue.claim import Report, Settled, Statements
from pillarbox.queue.completer import Completer
from pillarbox.queue.policy import QueuePolicy
from pillarbox.queue.runner import Run, Runner
from pillarbox.queue.slots import Slots
from pillarbox.queue.table import RowT
from pillarbox.queue.tally import DrainStatus
from pillarbox.queue.waiting import first_of

__all__ = ["Drain", "DrainBusyError", "DrainStatus"]

log = structlog.get_logger(__name__)

_CLAIM_LANES = 2
"""Claims under way at once, each of a batch at most. Only the first lane connects before there is a rush."""

_UNSETTLED_BATCHES = 10
"""Claiming pauses while this many batches of reports are unwritten."""

_CONTENDED_POLL_SECONDS = 0.1
"""Pause when rows are due and all of them are locked by other claimers."""

_PATIENCE_SECONDS = 30.0
"""How long a drain that ends by itself waits for the database to take its last reports."""


class DrainBusyError(PillarboxError):
    """This process already drains this queue."""


class Drain(Generic[RowT]):
    """Drains one queue in this process, at most `policy.concurrency` rows at a time.

    While rows run and reports are settled on one connection, the next rows are claimed on another. One
    process never stacks drains: a second start is refused.
    """

    def __init__(
        self,
        statements: Statements[RowT],
        policy: QueuePolicy,
        run: Run[RowT],
        lane: Callable[[], Lane],
        *,
        wake: asyncio.Event | None = None,
        grace_seconds: float = 1.0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.status = DrainStatus()
        self.wake = wake or asyncio.Event()
        self._statements = statements
        self._policy = policy
        self._runner = Runner(policy, run)
        self._lane = lane
        self._grace_seconds = grace_seconds
        self._on_change = on_change
        self._stir = asyncio.Event()
        self._paused = False
        self._started = False

    # -- from outside ------------------------------------------------------------------------------

    async def run(self, stopping: asyncio.Event) -> None:
        """Drain whenever woken, at each tick and when a row falls due, until `stopping` is set.

        Raises:
            DrainBusyError: this process already drains this queue.
        """
        await self._work(stopping, once=False, limit=None)

    async def run_once(
        self, stopping: asyncio.Event | None = None, *, limit: int | None = None
    ) -> DrainStatus:
        """Drain until nothing is due, or `limit` rows are claimed; answers what this drain did.

        Raises:
            DrainBusyError: this process already drains this queue.
            DatabaseUnreachableError: the database went away under a reap or a claim.
        """
        before = msgspec.structs.replace(self.status)
        await self._work(stopping or asyncio.Event(), once=True, limit=limit)
        return self.status.since(before)

    def pause(self) -> None:
        """Claim nothing more until `resume`; what runs, runs on."""
        self._paused = True
        if self._started:
            self._changed("paused")

    def resume(self) -> None:
        """Claim again."""
        self._paused = False
        if self._started:
            self._changed("idle")
        self.wake.set()

    # -- the loop ----------------------------------------------------------------------------------

    async def _work(self, stopping: asyncio.Event, *, once: bool, limit: int | None) -> None:
        if self._started:
            raise DrainBusyError("this process already drains this queue; one process never stacks drains")
        self._started = True
        try:
            async with contextlib.AsyncExitStack() as open_lanes, asyncio.TaskGroup() as group:
                lanes = [await open_lanes.enter_async_context(self._lane()) for _ in range(_CLAIM_LANES)]
                settle_lane = await open_lanes.enter_async_context(self._lane())
                completer = Completer(self._statements, settle_lane, self._landed)
                slots = Slots(self._policy, self._runner, completer.report, self._stir)
                settling = group.create_task(completer.run())
                try:
                    async with self._until_stopped(stopping):
                        await self._claim_until(stopping, lanes, slots, completer, once=once, limit=limit)
                finally:
                    await self._finish(slots, completer, settling, stopping)
        except* (DatabaseUnreachableError, asyncpg.PostgresError) as errors:
            raise _first(errors) from None
        finally:
            self._started = False
            self._changed("off")

    @asynccontextmanager
    async def _until_stopped(self, stopping: asyncio.Event) -> AsyncGenerator[None]:
        """Stir the loop when `stopping` is set, and break off what then still waits after the grace.

        A claim under way is worth waiting for, since its rows can be handed back; a database that has gone
        silent is not.
        """
        loop = asyncio.get_running_loop()
        stop = asyncio.ensure_future(stopping.wait())
        with contextlib.suppress(TimeoutError):
            try:
                async with asyncio.timeout(None) as patience:

                    def hurry(waited: asyncio.Future[Literal[True]]) -> None:
                        if not waited.cancelled():
                            self._stir.set()
                            patience.reschedule(loop.time() + self._grace_seconds)

                    stop.add_done_callback(hurry)
                    try:
                        yield
                    finally:
                        stop.remove_done_callback(hurry)
            finally:
                stop.cancel()

    async def _claim_until(
        self,
        stopping: asyncio.Event,
        lanes: Sequence[Lane],
        slots: Slots[RowT],
        completer: Completer,
        *,
        once: bool,
        limit: int | None,
    ) -> None:
        left = limit
        reap_at = 0.0
        failures = 0
        clock = asyncio.get_running_loop().time
        while not stopping.is_set():
            self._stir.clear()
            room = slots.room()
            if not room or completer.unsettled >= self._settle_room:
                await self._wait_for_room(completer, stopping)
                continue
            if self._paused and not once:
                await self._sleep(self._policy.tick_seconds)
                continue
            size = room if left is None else min(room, left)
            try:
                if clock() >= reap_at:
                    await self._reap(lanes[0])
                    reap_at = clock() + self._policy.tick_seconds
                claimed = await self._claim(lanes, size, slots)
                failures = 0
            except (DatabaseUnreachableError, asyncpg.PostgresError) as error:
                if once:
                    raise
                failures += 1
                if failures == 1:
                    log.warning("the drain waits for the database", error=str(error))
                await self._sleep(min(0.1 * 2 ** min(failures, 6), 5.0))
                continue
            if claimed:
                if left is not None:
                    left -= claimed
            elif not once:
                await self._rest(lanes[0], slots)
                reap_at = 0.0
            elif slots.busy:
                await self._stir.wait()
            else:
                return

    async def _claim(self, lanes: Sequence[Lane], size: int, slots: Slots[RowT]) -> int:
        """Claim at most `size` rows, a batch on each lane, and begin them; answers how many there were."""
        batch = self._policy.batch_size
        sizes = [min(batch, size - start) for start in range(0, size, batch)]
        claimed_at = asyncio.get_running_loop().time()
        claims = await asyncio.gather(
            *(self._statements.claim(lane, part) for lane, part in zip(lanes, sizes, strict=False)),
            return_exceptions=True,
        )
        rows = [row for claim in claims if not isinstance(claim, BaseException) for row in claim]
        if rows:
            self._count_claimed(len(rows))
            slots.begin(rows, claimed_at)
        for claim in claims:
            if isinstance(claim, BaseException):
                raise claim
        return len(rows)

    # -- waiting -----------------------------------------------------------------------------------

    @property
    def _settle_room(self) -> int:
        return _UNSETTLED_BATCHES * self._policy.batch_size

    async def _wait_for_room(self, completer: Completer, stopping: asyncio.Event) -> None:
        if completer.unsettled >= self._settle_room and not stopping.is_set():
            await completer.wait_below(self._settle_room)
        else:
            await self._stir.wait()

    async def _rest(self, lane: Lane, slots: Slots[RowT]) -> None:
        """Sleep until woken, until the tick, or until the next row falls due."""
        try:
            due = await self._statements.next_due_seconds(lane)
        except (DatabaseUnreachableError, asyncpg.PostgresError):
            due = None
        if not slots.busy:
            self._changed("idle")
        tick = self._policy.tick_seconds
        await self._sleep(tick if due is None else min(tick, max(due, _CONTENDED_POLL_SECONDS)))

    async def _sleep(self, seconds: float) -> None:
        await first_of(seconds, self.wake, self._stir)
        self.wake.clear()

    # -- the end and the accounts ------------------------------------------------------------------

    async def _finish(
        self,
        slots: Slots[RowT],
        completer: Completer,
        settling: asyncio.Task[None],
        stopping: asyncio.Event,
    ) -> None:
        """Let what runs end, hand back what was not begun, and write every report."""
        for row in await slots.end(self._grace_seconds):
            completer.report(self._runner.hand_back(row))
        completer.close()
        patience = self._grace_seconds + 1.0 if stopping.is_set() else _PATIENCE_SECONDS
        _, unsettled = await asyncio.wait([settling], timeout=patience)
        if unsettled:
            log.error("stopped with reports unwritten; their leases will lapse", reports=completer.unsettled)
            settling.cancel()

    async def _reap(self, lane: Lane) -> None:
        reaped = await self._statements.reap(lane, self._policy.lease.seconds)
        if reaped:
            self.status.count_reaped(self._statements.table, reaped)
            log.warning("reaped lapsed leases", rows=len(reaped))
            self._on_change()

    def _count_claimed(self, rows: int) -> None:
        self.status.claimed += rows
        if self.status.state != "draining":
            self.status.drains += 1
            self.status.last_drain_at = datetime.now(UTC)
        self._changed("draining")

    def _landed(self, reports: Sequence[Report], settled: Sequence[Settled]) -> None:
        self.status.count_landed(self._statements.table, reports, settled)
        if len(settled) < len(reports):
            landed = {row.id for row in settled}
            log.warning(
                "discarded stale reports", rows=[str(r.id) for r in reports if r.id not in landed][:10]
            )
        if any(report.outcome in {"retry", "release"} for report in reports):
            # The loop may already rest until a time computed without these rows.
            self._stir.set()
        self._on_change()

    def _changed(self, state: Literal["idle", "draining", "paused", "off"]) -> None:
        if self.status.state != state:
            self.status.state = state
            self._on_change()


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
