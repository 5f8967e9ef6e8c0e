"""What a drain has done, counted from what the database answered."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

from pillarbox.queue.claim import Report, Settled
from pillarbox.queue.table import QueueTable, RowT


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

    def since(self, earlier: "DrainStatus") -> "DrainStatus":
        """This status with what was counted up to `earlier` taken off."""
        return DrainStatus(
            **{
                name: value - getattr(earlier, name) if isinstance(value, int) else value
                for name, value in msgspec.structs.asdict(self).items()
            }
        )

    def count_reaped(self, table: QueueTable[RowT], reaped: Sequence[Settled]) -> None:
        """Count rows whose lease had lapsed."""
        self.reaped += len(reaped)
        self.dead += sum(row.status == table.dead for row in reaped)

    def count_landed(
        self, table: QueueTable[RowT], reports: Sequence[Report], settled: Sequence[Settled]
    ) -> None:
        """Count reports by the status their rows came to; those that changed no row were stale."""
        landed = Counter(row.status for row in settled)
        self.sent += landed[table.done]
        self.failed += landed[table.failed]
        self.dead += landed[table.dead]
        self.stale += len(reports) - len(settled)
        if landed["pending"]:
            again = {row.id for row in settled if row.status == "pending"}
            released = sum(report.outcome == "release" and report.id in again for report in reports)
            self.released += released
            self.retried += landed["pending"] - released
