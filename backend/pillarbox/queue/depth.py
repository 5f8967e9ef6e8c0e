"""Depth in O(1): counters kept by the database, read as a snapshot, folded by the reader."""

from datetime import datetime

import msgspec

from pillarbox.database.lane import Lane
from pillarbox.queue.table import QueueTable, RowT

_SNAPSHOT = """\
SELECT
  clock_timestamp(),
  (SELECT coalesce(jsonb_object_agg(key, total), '{{}}')::text
   FROM (SELECT key, sum(delta) AS total
         FROM queue.depth_deltas
         WHERE queue = '{queue}'
         GROUP BY key) AS counted),
  (SELECT count(*)
   FROM queue.depth_deltas
   WHERE queue = '{queue}'),
  (SELECT extract(epoch FROM now() - next_attempt_at)::float8
   FROM {name}
   WHERE status = 'pending' AND next_attempt_at <= now()
   ORDER BY next_attempt_at, created_at
   LIMIT 1),
  (SELECT count(*)
   FROM (SELECT
         FROM {name}
         WHERE status = 'pending' AND attempts > 0 AND next_attempt_at <= now()
         LIMIT {due_again_limit}) AS due_again)
"""

_FOLD = """\
WITH taken AS MATERIALIZED (
  SELECT ctid
  FROM queue.depth_deltas
  WHERE queue = '{queue}'
  LIMIT $1
  FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM queue.depth_deltas AS d
  USING taken AS t
  WHERE d.ctid = t.ctid
  RETURNING d.key, d.delta
)
INSERT INTO queue.depth_deltas (queue, key, delta)
SELECT '{queue}', key, sum(delta)
FROM gone
GROUP BY key
HAVING sum(delta) <> 0
"""

_DUE_AGAIN_LIMIT = 10_000
"""Overdue retries counted at most: beyond it the surplus counts as still waiting."""

_FOLD_ABOVE = 200
"""Unfolded rows that make a fold worth its write."""


class Depth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How full a queue is. `retrying` rows are pending too: tried before, next attempt in the future."""

    at: datetime
    pending: int
    processing: int
    sent: int
    failed: int
    dead: int
    retrying: int
    oldest_due_age_seconds: float | None
    enqueued_total: int
    settled_total: int


class DepthCounter:
    """Reads the counters of one queue and keeps them short."""

    def __init__(self, table: QueueTable[RowT]) -> None:
        self._table = table
        self.snapshot_sql = _SNAPSHOT.format(
            queue=table.queue, name=table.name, due_again_limit=_DUE_AGAIN_LIMIT
        )
        self._fold_sql = _FOLD.format(queue=table.queue)

    async def read(self, lane: Lane) -> Depth:
        """One consistent snapshot; folds the counters on the way when they have grown long."""
        record = (await lane.fetch(self.snapshot_sql))[0]
        at, counted, unfolded, oldest, due_again = record
        counts = msgspec.json.decode(counted, type=dict[str, int])
        if unfolded > _FOLD_ABOVE:
            await lane.fetch(self._fold_sql, 20_000)
        tried = counts.get("pending_again", 0)
        table = self._table
        return Depth(
            at=at,
            pending=counts.get("pending", 0) + tried,
            processing=counts.get(table.active, 0),
            sent=counts.get(table.done, 0),
            failed=counts.get(table.failed, 0),
            dead=counts.get(table.dead, 0),
            retrying=max(0, tried - due_again),
            oldest_due_age_seconds=oldest,
            enqueued_total=counts.get("enqueued", 0),
            settled_total=counts.get("settled", 0),
        )
