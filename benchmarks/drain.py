"""Claim → run → settle through the real drain loop."""

import time

import msgspec

from benchmarks.databases import Outbox
from pillarbox.notifications.outbox import OUTBOX, ClaimedDelivery
from pillarbox.queue.claim import Statements
from pillarbox.queue.drain import Drain
from pillarbox.queue.verdict import Done, Verdict
from pillarbox.settings import Settings

STATEMENTS = Statements(OUTBOX)
NAME = "pillarbox"


async def send_nowhere(_: ClaimedDelivery) -> Verdict:
    """The no-op handler."""
    return Done("receipt")


def make_drain(outbox: Outbox, **changes: object) -> Drain[ClaimedDelivery]:
    """A drain with the default settings, or changed ones (fields of Settings, without `delivery_`)."""
    settings = msgspec.structs.replace(
        Settings(), **{f"delivery_{name}": value for name, value in changes.items()}
    )
    return Drain(STATEMENTS, settings.delivery_policy, send_nowhere, outbox.database.lane)


class DrainContestant:
    """Our own drain, with the lease arithmetic of the default: five waves a batch."""

    name = NAME

    def __init__(self, outbox: Outbox, rounds: int) -> None:
        self.rounds = rounds
        self._outbox = outbox

    async def prepare(self, rows: int) -> None:
        """Fill the outbox."""
        await self._outbox.fill(rows)

    async def work(self, rows: int, batch: int) -> float:
        """One drain until nothing is due."""
        drain = make_drain(self._outbox, batch_size=batch, concurrency=batch // 5)
        begun = time.perf_counter()
        done = await drain.run_once()
        seconds = time.perf_counter() - begun
        if not done.sent == rows == await self._outbox.sent():
            raise RuntimeError(f"of {rows} deliveries {done.sent} were sent")
        return rows / seconds
