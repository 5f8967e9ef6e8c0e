"""Everything one process runs, HTTP aside: built once, started together, stopped together."""

import asyncio
import base64
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from pillarbox.channels.smtp import SmtpChannel
from pillarbox.channels.webhook import WebhookChannel
from pillarbox.database.engine import Database
from pillarbox.inbox.service import Inbox
from pillarbox.notifications.deliver import Deliverer
from pillarbox.notifications.outbox import OUTBOX, ClaimedDelivery
from pillarbox.queue.board import Board
from pillarbox.queue.claim import Statements
from pillarbox.queue.depth import DepthCounter
from pillarbox.queue.drain import Drain
from pillarbox.queue.pruner import Pruner
from pillarbox.queue.sampler import DepthSampler
from pillarbox.queue.waiting import first_of
from pillarbox.queue.wake import Announcer, Listener
from pillarbox.settings import Settings

log = structlog.get_logger(__name__)

WAKE_CHANNEL = "pillarbox_outbox"


class Runtime:
    """The parts of one process, wired."""

    def __init__(self, settings: Settings, database_url: str) -> None:
        self.settings = settings
        self.stopping = asyncio.Event()
        self.changed = asyncio.Event()
        self.board = Board()
        self.database = Database(
            database_url,
            direct_url=settings.database_direct_url,
            pooled=settings.database_pooled,
            pool_size=settings.database_pool_size,
            deadline_seconds=settings.database_deadline_seconds,
        )
        self.statements = Statements(OUTBOX)
        self.inbox = Inbox(self.database, self.board)
        self.webhook_secret = settings.webhook_secret or _generated_secret(settings.data_dir)
        self.webhook_url = settings.webhook_url or f"http://{_own_host(settings)}/api/inbox/webhook"
        # Just under the deadline around it: a channel that gives up itself can tell what became of the send.
        patience = settings.delivery_send_timeout * 0.95
        relay = settings.smtp_url or f"smtp://127.0.0.1:{settings.inbox_smtp_port}"
        self.deliverer = Deliverer(
            {
                "email": SmtpChannel(relay, settings.smtp_from, timeout_seconds=patience),
                "webhook": WebhookChannel(self.webhook_secret, timeout_seconds=patience),
            }
        )
        self.sampler = DepthSampler(DepthCounter(OUTBOX), self.database.lane(), self.board)
        self.drain: Drain[ClaimedDelivery] = Drain(
            self.statements,
            settings.delivery_policy,
            self.deliverer,
            self.database.lane,
            grace_seconds=settings.shutdown_grace_seconds,
            on_change=self._on_change,
        )
        self.listener = Listener(self.database, WAKE_CHANNEL, self._on_wake)
        self.announcer = Announcer(self.database.lane(), WAKE_CHANNEL, self._on_wake)
        self.pruner = Pruner(
            self.statements,
            self.database.lane(),
            {
                "sent": settings.delivery_retention_sent_days * 86_400,
                "failed": settings.delivery_retention_failed_days * 86_400,
                "dead": settings.delivery_retention_failed_days * 86_400,
            },
        )
        self._on_change()

    @property
    def drains_here(self) -> bool:
        """Whether this process runs the drain loop."""
        return self.settings.platform == "resident"

    def patient_worker_environment(self) -> dict[str, str]:
        """What a worker of the incidents runs with: the same database and inbox, one row, much patience."""
        settings = self.settings
        return {
            "DATABASE_URL": self.database.url,
            "PILLARBOX_DATA_DIR": str(settings.data_dir.resolve()),
            "PILLARBOX_DELIVERY_BATCH_SIZE": "1",
            "PILLARBOX_DELIVERY_CONCURRENCY": "1",
            "PILLARBOX_DELIVERY_SEND_TIMEOUT": "250",
            "PILLARBOX_DELIVERY_SETTLE_MARGIN": "30",
            "PILLARBOX_DELIVERY_CLAIM_LEASE": "300",
        }

    def stop(self) -> None:
        """Begin to stop: streams end, nothing more is claimed."""
        self.stopping.set()
        self.board.release()

    @asynccontextmanager
    async def loops(self) -> AsyncGenerator[None]:
        """Run the background loops; at the end stop them, settle, and close what is open."""
        try:
            async with asyncio.TaskGroup() as group:
                loops = {"announcer": self.announcer.run, "sampler": self.sampler.run}
                if self.drains_here:
                    loops |= {"drain": self.drain.run, "pruner": self.pruner.run}
                    if self.database.listens:
                        loops["listener"] = self.listener.run
                tasks = {
                    name: group.create_task(self._keep_running(name, run), name=name)
                    for name, run in loops.items()
                }
                try:
                    yield
                finally:
                    self.stop()
                    # The drain has rows to hand back; the others have nothing worth a database's silence.
                    others = [task for name, task in tasks.items() if name != "drain"]
                    _, late = await asyncio.wait(others, timeout=self.settings.shutdown_grace_seconds)
                    for task in late:
                        task.cancel()
        finally:
            await self.aclose()

    async def _keep_running(self, name: str, run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
        """Run a loop until stopping; one that crashes is started again, ever more slowly."""
        pause = 1.0
        while not self.stopping.is_set():
            try:
                await run(self.stopping)
            except Exception:
                log.exception("a loop crashed and will be started again", loop=name, seconds=pause)
                await first_of(pause, self.stopping)
                pause = min(pause * 2, 60.0)
            else:
                return

    async def aclose(self) -> None:
        """Close what is open."""
        await self.deliverer.aclose()
        await self.database.aclose()

    def _on_change(self) -> None:
        self.board.post("drain", self.drain.status)
        self.changed.set()
        self.sampler.nudge()

    def _on_wake(self) -> None:
        self.drain.wake.set()
        self.sampler.nudge()


def _own_host(settings: Settings) -> str:
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::", ""} else settings.host  # noqa: S104
    return f"[{host}]:{settings.port}" if ":" in host else f"{host}:{settings.port}"


def _generated_secret(data_dir: Path) -> str:
    """The signing secret of this installation, made at first use; its file is the owner's alone."""
    path = data_dir / "webhook-secret"
    try:
        return path.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    data_dir.mkdir(parents=True, exist_ok=True)
    secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
    draft = data_dir / f"webhook-secret.{secrets.token_hex(4)}"
    draft.touch(mode=0o600)
    draft.write_text(secret + "\n", "ascii")
    try:
        # Whoever links first wins; a process that starts at the same moment reads the winner's.
        path.hardlink_to(draft)
    except FileExistsError:
        secret = path.read_text("ascii").strip()
    finally:
        draft.unlink()
    return secret
