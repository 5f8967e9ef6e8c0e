"""Two incidents played with a real worker process: one is killed mid-send, one is frozen and comes back late.

Nothing is pretended: the worker is a child process that claims with the same statement, `kill` is
SIGKILL, `freeze` is SIGSTOP. Only waiting is cut short, by moving the row's claim into the past; the clock
is never moved.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

import msgspec
import structlog
from sqlalchemy import text
from uuid_utils.compat import uuid7

from pillarbox.child import end_with_parent
from pillarbox.database.engine import Database
from pillarbox.inbox.holds import Holds
from pillarbox.notifications.service import Delivery
from pillarbox.notifications.trial import Trial, TrialOutbox
from pillarbox.problems import ConflictError
from pillarbox.queue.board import Board
from pillarbox.queue.drain import Drain, DrainStatus
from pillarbox.queue.waiting import first_of

log = structlog.get_logger(__name__)

Kind = Literal["kill", "freeze"]
Action = Literal["kill", "freeze", "lapse", "thaw"]
State = Literal[
    "starting", "sending", "orphaned", "frozen", "lapsed", "redelivered", "delivered", "discarded", "failed"
]

_START_SECONDS = 20.0
_STEP_SECONDS = 20.0
_ABANDON_SECONDS = 240.0

# The waiting is cut short by moving this one row, as if its claim had been made a lease earlier.
_LAPSE = text("""\
UPDATE notifications.notification_deliveries
SET attempted_at = attempted_at - make_interval(secs => :lease)
WHERE id = :id AND status = 'processing'
""")


_PUT_FIRST = text("""\
UPDATE notifications.notification_deliveries
SET next_attempt_at = 'epoch'
WHERE id = :id AND status = 'pending'
""")


class Logged(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to the row, with the fence it then had."""

    at: datetime
    step: str
    attempts: int | None = None
    detail: str | None = None


class Incident(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An incident being played; `next` is the step it waits for."""

    id: UUID
    kind: Kind
    state: State
    next: Action | None
    delivery_id: UUID
    worker_pid: int | None
    attempts: int
    log: tuple[Logged, ...]
    error: str | None = None


class Incidents:
    """Plays one incident at a time."""

    TOPIC = "incident"

    def __init__(
        self,
        *,
        database: Database,
        trial: TrialOutbox,
        drain: Drain[Any],
        holds: Holds | None,
        board: Board,
        changed: asyncio.Event,
        lease_seconds: float,
        worker_environment: Callable[[], Mapping[str, str]],
    ) -> None:
        self._database = database
        self._trial = trial
        self._drain = drain
        self._holds = holds
        self._board = board
        self._changed = changed
        self._lease_seconds = lease_seconds
        self._worker_environment = worker_environment
        self._worker: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._abandon: asyncio.TimerHandle | None = None
        self.current: Incident | None = None
        board.post(self.TOPIC, None)

    async def begin(self, kind: Kind) -> Incident:
        """Enqueue a delivery whose receiver holds its answer back, and start a worker that takes it.

        Raises:
            ConflictError: one is being played already, or mail does not go to the built-in inbox.
        """
        if self._holds is None:
            raise ConflictError("Incidents need the built-in inbox: unset PILLARBOX_SMTP_URL.")
        if self._turn.locked() or (self.current is not None and self.current.next is not None):
            raise ConflictError("An incident is being played already; end it first.")
        async with self._turn:
            await self._clean_up()
            # The drain of this process stands aside until the worker has the row, or it would take it itself.
            self._drain.pause()
            try:
                (delivery_id,) = await self._trial.enqueue(
                    Trial(channel="email", rehearsal="hold", title=f"Incident: {kind}"), announce=False
                )
                self._set(
                    Incident(
                        id=uuid7(),
                        kind=kind,
                        state="starting",
                        next=None,
                        delivery_id=delivery_id,
                        worker_pid=None,
                        attempts=0,
                        log=(),
                    )
                )
                await self._put_first(delivery_id)
                self._note("enqueued")
                self._worker = await self._start_worker()
                self._set(worker_pid=self._worker.pid)
                self._note("worker_started", detail=str(self._worker.pid))
                try:
                    async with asyncio.timeout(_START_SECONDS):
                        await self._holds.arrival(delivery_id)
                except TimeoutError:
                    return await self._fail("the worker did not reach the receiver; another one may have")
            finally:
                self._drain.resume()
            delivery = await self._delivery()
            self._set(state="sending", next=kind, attempts=delivery.attempts)
            self._note("claimed", attempts=delivery.attempts)
            self._abandon = asyncio.get_running_loop().call_later(_ABANDON_SECONDS, self._give_up)
            return self._present

    async def step(self, action: Action) -> Incident:
        """Take the step the incident waits for.

        Raises:
            ConflictError: it waits for another step, or for none.
        """
        if self._turn.locked():
            raise ConflictError("The step before is still under way.")
        async with self._turn:
            incident = self.current
            if incident is None or incident.next != action:
                waits = incident.next if incident else None
                raise ConflictError(
                    f"The incident waits for {waits!r}, not for {action!r}." if waits else "No step is open."
                )
            self._set(next=None)
            try:
                match action:
                    case "kill":
                        await self._kill()
                    case "freeze":
                        self._freeze()
                    case "lapse":
                        await self._lapse()
                    case "thaw":
                        await self._thaw()
            except TimeoutError:
                return await self._fail("the expected change did not come in time")
            except Exception as error:
                await self._fail(str(error))
                raise
            return self._present

    async def end(self) -> None:
        """End the incident and its worker."""
        async with self._turn:
            await self._clean_up()
            self.current = None
            self._board.post(self.TOPIC, None)

    # -- the steps ---------------------------------------------------------------------------------

    async def _kill(self) -> None:
        worker = self._live_worker
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        self._set(state="orphaned", next="lapse")
        self._note("killed", attempts=(await self._delivery()).attempts)

    def _freeze(self) -> None:
        self._live_worker.send_signal(signal.SIGSTOP)
        self._set(state="frozen", next="lapse")
        self._note("frozen", attempts=self._present.attempts)

    async def _lapse(self) -> None:
        first = self._present.attempts
        async with self._database.session() as session:
            await session.execute(_LAPSE, {"lease": self._lease_seconds + 1, "id": self._present.delivery_id})
        self._set(state="lapsed")
        self._note("lapsed", attempts=first)
        self._drain.wake.set()
        if self._drain.status.state == "off":
            await self._drain.run_once()
        delivery = await self._until(lambda row: row.status == "sent" and row.attempts > first)
        self._set(attempts=delivery.attempts)
        self._note("reaped", attempts=first)
        self._note("redelivered", attempts=delivery.attempts)
        if self._present.kind == "kill":
            self._set(state="delivered")
        else:
            self._set(state="redelivered", next="thaw")

    async def _thaw(self) -> None:
        assert self._holds is not None
        worker = self._live_worker
        worker.send_signal(signal.SIGCONT)
        self._holds.release(self._present.delivery_id)
        self._note("thawed", attempts=1)
        async with asyncio.timeout(_STEP_SECONDS):
            output, _ = await worker.communicate()
        report = msgspec.json.decode(output.splitlines()[-1], type=DrainStatus) if output else DrainStatus()
        if not report.stale:
            await self._fail("the late report was not discarded")
            return
        self._note("discarded", attempts=1, detail=f"{report.stale} stale report")
        self._set(state="discarded")

    # -- helpers -----------------------------------------------------------------------------------

    @property
    def _present(self) -> Incident:
        assert self.current is not None
        return self.current

    @property
    def _live_worker(self) -> asyncio.subprocess.Process:
        if self._worker is None or self._worker.returncode is not None:
            raise ConflictError("The worker of this incident is gone; end the incident and begin anew.")
        return self._worker

    async def _start_worker(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "pillarbox",
            "drain",
            "--limit",
            "1",
            "--json",
            env={**os.environ, **self._worker_environment()},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            # A frozen worker would outlive a killed server for ever.
            preexec_fn=end_with_parent(signal.SIGKILL),
        )

    async def _put_first(self, delivery_id: UUID) -> None:
        """Before every other due row, or the worker would take one of those."""
        async with self._database.session() as session:
            await session.execute(_PUT_FIRST, {"id": delivery_id})

    async def _delivery(self) -> Delivery:
        delivery = await self._trial.find(self._present.delivery_id)
        if delivery is None:
            raise ConflictError("The delivery of this incident is gone; end the incident and begin anew.")
        return delivery

    async def _until(self, condition: Callable[[Delivery], bool]) -> Delivery:
        async with asyncio.timeout(_STEP_SECONDS):
            while True:
                self._changed.clear()
                delivery = await self._delivery()
                if condition(delivery):
                    return delivery
                # Another process may have done it, which only the row tells.
                await first_of(1.0, self._changed)

    def _set(self, incident: Incident | None = None, **changes: Any) -> None:
        self.current = incident or msgspec.structs.replace(self._present, **changes)
        self._board.post(self.TOPIC, self.current)

    def _note(self, step: str, *, attempts: int | None = None, detail: str | None = None) -> None:
        entry = Logged(at=datetime.now(UTC), step=step, attempts=attempts, detail=detail)
        self._set(log=(*self._present.log, entry))

    async def _fail(self, reason: str) -> Incident:
        self._set(state="failed", next=None, error=reason)
        await self._clean_up()
        return self._present

    def _give_up(self) -> None:
        if self.current is not None and self.current.next is not None and not self._turn.locked():
            self._set(state="failed", next=None, error="nobody took the next step in time")
            self._stop_worker()

    def _stop_worker(self) -> None:
        if self._worker is not None and self._worker.returncode is None:
            self._worker.kill()

    async def _clean_up(self) -> None:
        if self._abandon is not None:
            self._abandon.cancel()
            self._abandon = None
        if self._holds is not None and self.current is not None:
            self._holds.release(self.current.delivery_id)
        self._stop_worker()
        if self._worker is not None:
            await self._worker.wait()
            self._worker = None
