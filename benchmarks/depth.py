"""A depth snapshot above a short history and above a long one: the same time, or it is not O(1)."""

import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.databases import Outbox, fresh_database
from benchmarks.figures import Figure, beside
from pillarbox.notifications.outbox import OUTBOX
from pillarbox.queue.depth import DepthCounter

_SHORT = 1_000
_LONG = 1_000_000
_READS = 300
_COUNTS = 5

_NOTIFICATIONS = """\
INSERT INTO notifications.notifications (id, person_id, type, title, body)
SELECT uuidv7(), $2, 'system', 'Your export is ready', 'It can be fetched for seven days.'
FROM generate_series(1, $1::int)
"""
_SENT_DELIVERIES = """\
INSERT INTO notifications.notification_deliveries
  (id, notification_id, channel, address, max_attempts, budget, status, attempts, attempted_at, sent_at)
SELECT uuidv7(), n.id, 'email', 'ada@example.org', 5, 5, 'sent', 1, now(), now()
FROM notifications.notifications AS n
WHERE NOT EXISTS (SELECT FROM notifications.notification_deliveries AS d WHERE d.notification_id = n.id)
"""
_COUNT = "SELECT status, count(*) FROM notifications.notification_deliveries GROUP BY status"


async def figures(server_url: str) -> list[Figure]:
    """Long beside short, and beside counting the rows."""
    async with fresh_database(server_url, "bench_depth") as url, Outbox(url) as outbox:
        person = (await outbox.drafts(1))[0].person_id
        # Not on the lane: a million rows take longer than its deadline.
        connection = await outbox.database.connect_direct()
        paces: list[float] = []
        present = 0
        for rows in (_SHORT, _LONG):
            await connection.fetch(_NOTIFICATIONS, rows - present, person)
            await connection.execute(_SENT_DELIVERIES)
            await connection.execute("VACUUM ANALYZE")
            present = rows
            paces.append(await _snapshot_milliseconds(outbox, rows))
        counted = [await _milliseconds(lambda: connection.fetch(_COUNT)) for _ in range(_COUNTS)]
        await connection.close()
    short, long = paces
    return [
        beside("depth_snapshot_1m_rows", long, "ms", "depth_snapshot_1k_rows", short),
        beside("depth_snapshot_1m_rows", long, "ms", "count(*) by status", statistics.median(counted)),
    ]


async def _snapshot_milliseconds(outbox: Outbox, rows: int) -> float:
    counter = DepthCounter(OUTBOX)
    for _ in range(20):
        depth = await counter.read(outbox.lane)
        if depth.sent != rows:
            raise RuntimeError(f"the depth says {depth.sent} sent, and {rows} are")
    return statistics.median([await _milliseconds(lambda: counter.read(outbox.lane)) for _ in range(_READS)])


async def _milliseconds(read: Callable[[], Awaitable[object]]) -> float:
    begun = time.perf_counter()
    await read()
    return (time.perf_counter() - begun) * 1000
