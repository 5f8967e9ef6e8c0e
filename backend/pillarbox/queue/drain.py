"""The drain: claim, run, settle, until nothing is due; as a resident loop or once."""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
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
from pillarbox.queue.policy import QueuePolicy, attempts_used, retry_delay_seconds
from pillarbox.queue.table import RowT
from pillarbox.queue.verdict import Done, Failed, Release, Retry, Verdict
from pillarbox.queue.waiting import first_of

log = structlog.get_logger(__name__)

Run = Callable[[RowT], Awaitable[Verdict]]

_UNSETTLED_BATCHES = 4
"""Claiming pauses while this many batches of reports are unwritten."""

_CONTENDED_POLL_SECONDS = 0.1
"""Pause when rows are due and all of them are locked by other claimers."""

_PATIENCE_SECONDS = 30.0
"""How long a drain that ends by itself waits for the database to take its last reports."""

_LONGEST_ERROR = 500


class DrainBusyError(PillarboxError):
    """This process already drains this queue."""


class DrainStatus(msgspec.Struct, kw_only=True, rename="camel"):
    """What this process's drain does and has done since the process started."""

    state: Literal["idle", "draining", "paused", "off"] = "off"
    drains: int = 0
    claimed: int = 0
    sent: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    released: int = 0
    reaped: int = 0
    stale: int = 0
    last_drain_at: datetime | None = None


class Drain(Generic[RowT]):
    """Drains one queue in this process, at most `policy.concurrency` rows at a time.

    Free slots claim for themselves (`Lease.claim_size`), so a hung row holds one slot and nobody
    else. One process never stacks drains: a second start is refused.
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
        self._run = run
        self._lane = lane
        self._grace_seconds = grace_seconds
        self._on_change = on_change
        self._backlog: deque[tuple[RowT, float]] = deque()
        self._unbegun: list[RowT] = []
        self._busy_slots = 0
        self._stir = asyncio.Event()
        self._paused = False
        self._busy = False

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
            DatabaseUnreachableError: the database went away before the first claim.
        """
        before = msgspec.structs.asdict(self.status)
        await self._work(stopping or asyncio.Event(), once=True, limit=limit)
        after = msgspec.structs.asdict(self.status)
        return DrainStatus(
            **{
                name: value - before[name] if isinstance(value, int) else value
                for name, value in after.items()
            }
        )

    def pause(self) -> None:
        """Claim nothing more until `resume`; what runs, runs on."""
        self._paused = True
        self._changed("paused")

    def resume(self) -> None:
        """Claim again."""
        self._paused = False
        self.wake.set()

    # -- the loop ----------------------------------------------------------------------------------

    async def _work(self, stopping: asyncio.Event, *, once: bool, limit: int | None) -> None:
        if self._busy:
            raise DrainBusyError("this process already drains this queue; one process never stacks drains")
        self._busy = True
        try:
            async with self._lane() as claim_lane, self._lane() as settle_lane:
                completer = Completer(self._statements, settle_lane, self._landed)
                async with asyncio.TaskGroup() as group:
                    settling = group.create_task(completer.run())
                    try:
                        await self._claim_until(stopping, claim_lane, completer, once=once, limit=limit)
                    finally:
                        await self._finish(completer, settling, hurried=stopping.is_set())
        except* (DatabaseUnreachableError, asyncpg.PostgresError) as errors:
            raise _first(errors) from None
        finally:
            self._busy = False
            self._changed("off")

    async def _claim_until(
        self,
        stopping: asyncio.Event,
        lane: Lane,
        completer: Completer,
        *,
        once: bool,
        limit: int | None,
    ) -> None:
        slots: set[asyncio.Task[None]] = set()
        try:
            async with self._until_stopped(stopping):
                await self._claim_and_start(stopping, lane, completer, slots, once=once, limit=limit)
        finally:
            await self._end_slots(slots)

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

    async def _claim_and_start(
        self,
        stopping: asyncio.Event,
        lane: Lane,
        completer: Completer,
        slots: set[asyncio.Task[None]],
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
            idle = self._policy.concurrency - self._busy_slots
            if self._backlog or not idle or completer.unsettled >= self._settle_room:
                await self._wait_for_room(completer, stopping)
                continue
            if self._paused and not once:
                await self._sleep(self._policy.tick_seconds)
                continue
            size = self._policy.lease.claim_size(idle)
            if left is not None:
                size = min(size, left)
            claimed_at = clock()
            try:
                if claimed_at >= reap_at:
                    await self._reap(lane)
                    reap_at = claimed_at + self._policy.tick_seconds
                    claimed_at = clock()
                rows = await self._statements.claim(lane, size) if size else []
                failures = 0
            except (DatabaseUnreachableError, asyncpg.PostgresError) as error:
                if once:
                    raise
                failures += 1
                if failures == 1:
                    log.warning("the drain waits for the database", error=str(error))
                await self._sleep(min(0.1 * 2 ** min(failures, 6), 5.0))
                continue
            if rows:
                self._begin(rows, claimed_at)
                if left is not None:
                    left -= len(rows)
                for _ in range(min(idle, len(rows))):
                    self._busy_slots += 1
                    slot = asyncio.ensure_future(self._slot(completer))
                    slots.add(slot)
                    slot.add_done_callback(slots.discard)
                continue
            if once:
                if not self._busy_slots:
                    return
                await self._stir.wait()
                continue
            await self._rest(lane)
            reap_at = 0.0

    def _begin(self, rows: Sequence[RowT], claimed_at: float) -> None:
        self.status.claimed += len(rows)
        if self.status.state != "draining":
            self.status.drains += 1
            self.status.last_drain_at = datetime.now(UTC)
        self._backlog.extend((row, claimed_at) for row in rows)
        self._changed("draining")

    async def _slot(self, completer: Completer) -> None:
        try:
            while self._backlog:
                row, claimed_at = self._backlog.popleft()
                completer.report(self._as_report(row, await self._verdict(row, claimed_at)))
        finally:
            self._busy_slots -= 1
            self._stir.set()

    async def _verdict(self, row: RowT, claimed_at: float) -> Verdict:
        loop = asyncio.get_running_loop()
        if not self._policy.lease.may_begin(loop.time() - claimed_at):
            return Release(code="lease_short", message="what was left of the lease was shorter than a send")
        timeout = self._policy.lease.run_timeout_seconds
        try:
            async with asyncio.timeout(timeout):
                return await self._run(row)
        except TimeoutError:
            return Retry("deadline_exceeded", f"no answer within {timeout:g} s")
        except asyncio.CancelledError:
            # Only the end of the process cancels a slot. The row goes back with its attempt unspent;
            # whether the other side took it is unknown, which at-least-once allows.
            return Release(code="interrupted", message="the worker stopped during this attempt")
        except Exception as error:
            log.exception("a handler failed unexpectedly", row=str(row.id), attempt=row.attempts)
            return Retry("unexpected_error", f"{type(error).__name__}: {error}")

    def _as_report(self, row: RowT, verdict: Verdict) -> Report:
        match verdict:
            case Done(receipt):
                return Report(row.id, row.attempts, "done", receipt=_storable(receipt))
            case Failed(code, message):
                return Report(row.id, row.attempts, "failed", 0.0, _storable(code), _storable(message))
            case Retry(code, message, retry_after_seconds):
                used = attempts_used(row.attempts, row.max_attempts, row.budget)
                delay = retry_delay_seconds(
                    self._policy.backoff,
                    max(1, used),
                    retry_after_seconds=retry_after_seconds,
                    draw=random.random() if self._policy.backoff.jitter else 1.0,  # noqa: S311
                )
                return Report(row.id, row.attempts, "retry", delay, _storable(code), _storable(message))
            case Release(delay_seconds, code, message):
                return Report(
                    row.id, row.attempts, "release", delay_seconds, _storable(code), _storable(message)
                )

    # -- waiting -----------------------------------------------------------------------------------

    @property
    def _settle_room(self) -> int:
        return _UNSETTLED_BATCHES * self._policy.batch_size

    async def _wait_for_room(self, completer: Completer, stopping: asyncio.Event) -> None:
        if completer.unsettled >= self._settle_room and not stopping.is_set():
            await completer.wait_below(self._settle_room)
        else:
            await self._stir.wait()

    async def _rest(self, lane: Lane) -> None:
        """Sleep until woken, until the tick, or until the next row falls due."""
        try:
            due = await self._statements.next_due_seconds(lane)
        except (DatabaseUnreachableError, asyncpg.PostgresError):
            due = None
        if not self._busy_slots:
            self._changed("idle")
        tick = self._policy.tick_seconds
        await self._sleep(tick if due is None else min(tick, max(due, _CONTENDED_POLL_SECONDS)))

    async def _sleep(self, seconds: float) -> None:
        await first_of(seconds, self.wake, self._stir)
        self.wake.clear()

    # -- the end and the accounts ------------------------------------------------------------------

    async def _end_slots(self, slots: set[asyncio.Task[None]]) -> None:
        """Hand back what was not begun; let what runs end within the grace, then hand it back too."""
        self._unbegun = [row for row, _ in self._backlog]
        self._backlog.clear()
        if slots:
            _, late = await asyncio.wait(slots, timeout=self._grace_seconds)
            for slot in late:
                slot.cancel()
            if late:
                await asyncio.wait(late)

    async def _finish(self, completer: Completer, settling: asyncio.Task[None], *, hurried: bool) -> None:
        for row in self._unbegun:
            completer.report(self._as_report(row, Release()))
        self._unbegun = []
        completer.close()
        patience = self._grace_seconds + 1.0 if hurried else _PATIENCE_SECONDS
        _, unsettled = await asyncio.wait([settling], timeout=patience)
        if unsettled:
            log.error("stopped with reports unwritten; their leases will lapse", reports=completer.unsettled)
            settling.cancel()

    async def _reap(self, lane: Lane) -> None:
        reaped = await self._statements.reap(lane, self._policy.lease.seconds)
        if reaped:
            self.status.reaped += len(reaped)
            self.status.dead += sum(row.status == self._statements.table.dead for row in reaped)
            log.warning("reaped lapsed leases", rows=len(reaped))
            self._on_change()

    def _landed(self, reports: Sequence[Report], settled: Sequence[Settled]) -> None:
        outcomes = {report.id: report.outcome for report in reports}
        stale = len(reports) - len(settled)
        table, status = self._statements.table, self.status
        for row in settled:
            outcome = outcomes[row.id]
            if row.status == table.done:
                status.sent += 1
            elif outcome == "failed":
                status.failed += 1
            elif row.status == table.dead:
                status.dead += 1
            elif outcome == "release":
                status.released += 1
            else:
                status.retried += 1
        if stale:
            status.stale += stale
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


def _storable(text: str | None) -> str | None:
    """Text PostgreSQL can hold: no NUL, no lone surrogate, not endless."""
    if text is None:
        return None
    return text.replace("\0", "�").encode("utf-8", "replace").decode("utf-8")[:_LONGEST_ERROR]
