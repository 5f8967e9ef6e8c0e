"""Depth in O(1): counters kept by the database, read as a snapshot, folded by the reader."""

from datetime import datetime

import msgspec

from pillarbox.database.lane import Lane
from pillarbox.queue.table import QueueTable, RowT

# Folded deltas are deleted, but their dead rows stay in the table as long as any transaction older than
# the fold is open, and walking over them takes time. So a fold leaves behind which transactions it saw,
# and only deltas of others are looked at. That is a way in and nothing more: the answer is always the sum
# of all deltas there are.
_FOLDED = """\
  -- In a database that was dumped and restored transactions count from the beginning again.
  SELECT fold,
    CASE WHEN valid THEN seen_below ELSE 0 END AS seen_below,
    CASE WHEN valid THEN unseen ELSE '{{}}' END AS unseen
  FROM queue.depth_folds,
    LATERAL (SELECT seen_below <= pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS valid) AS v
  WHERE queue = '{queue}'
  ORDER BY fold DESC
  LIMIT 1
"""

_SNAPSHOT = """\
WITH folded AS MATERIALIZED (
{folded}), live AS MATERIALIZED (
  SELECT key, delta
  FROM queue.depth_deltas
  -- The upper bound excludes nothing: of a range the planner expects few rows and takes the index, of all
  -- beyond a bound it expects a third of a table that may consist of dead rows.
  WHERE queue = '{queue}'
    AND xid BETWEEN coalesce((SELECT seen_below FROM folded), 0) AND 9223372036854775807
  UNION ALL
  SELECT key, delta
  FROM queue.depth_deltas
  WHERE queue = '{queue}' AND xid = ANY ((SELECT unseen FROM folded)::bigint[])
)
SELECT
  clock_timestamp(),
  (SELECT coalesce(jsonb_object_agg(key, total), '{{}}')::text
   FROM (SELECT key, sum(delta) AS total
         FROM live
         GROUP BY key) AS counted),
  (SELECT count(*) FROM live),
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

# One folder at a time: the lock on the newest fold. Who comes while it is held, or with a snapshot from
# before it was replaced, finds nothing to lock and does nothing. A long list is folded from its oldest
# transactions on, each whole, so that what is left all lies beyond `seen_below`.
_FOLD = """\
WITH folded AS MATERIALIZED (
{folded}  FOR UPDATE OF depth_folds SKIP LOCKED
), bound AS MATERIALIZED (
  -- Never beyond this very transaction, whose sums are deltas too.
  SELECT least(
      (SELECT xid + 1
       FROM queue.depth_deltas
       WHERE queue = '{queue}' AND xid >= (SELECT seen_below FROM folded)
       ORDER BY xid
       OFFSET $1
       LIMIT 1),
      pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
      pg_current_xact_id()::text::bigint
    ) AS seen_below
), live AS MATERIALIZED (
  SELECT ctid AS place
  FROM queue.depth_deltas
  WHERE queue = '{queue}'
    AND xid >= (SELECT seen_below FROM folded)
    AND xid < (SELECT seen_below FROM bound)
  UNION ALL
  SELECT ctid
  FROM queue.depth_deltas
  WHERE queue = '{queue}' AND xid = ANY ((SELECT unseen FROM folded)::bigint[])
), gone AS (
  DELETE FROM queue.depth_deltas AS d
  USING live AS l
  WHERE d.ctid = l.place
  RETURNING d.key, d.delta
), summed AS (
  INSERT INTO queue.depth_deltas (queue, key, delta)
  SELECT '{queue}', key, sum(delta)
  FROM gone
  GROUP BY key
  HAVING sum(delta) <> 0
), replaced AS (
  DELETE FROM queue.depth_folds AS p
  USING folded AS f
  WHERE p.queue = '{queue}' AND p.fold = f.fold
)
INSERT INTO queue.depth_folds (queue, fold, seen_below, unseen)
SELECT '{queue}', f.fold + 1, b.seen_below,
  ARRAY(SELECT xid::text::bigint
        FROM pg_snapshot_xip(pg_current_snapshot()) AS xid
        WHERE xid::text::bigint < b.seen_below)
FROM folded AS f, bound AS b
"""

_DUE_AGAIN_LIMIT = 10_000
"""Overdue retries counted at most: beyond it the surplus counts as still waiting."""

_FOLD_ABOVE = 200
"""Unfolded rows that make a fold worth its write."""

_FOLD_AT_MOST = 20_000
"""Rows a fold takes before it leaves the rest to the next, so that it stays within a lane's deadline."""


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
        folded = _FOLDED.format(queue=table.queue)
        self.snapshot_sql = _SNAPSHOT.format(
            folded=folded, queue=table.queue, name=table.name, due_again_limit=_DUE_AGAIN_LIMIT
        )
        self._fold_sql = _FOLD.format(folded=folded, queue=table.queue)

    async def read(self, lane: Lane) -> Depth:
        """One consistent snapshot; folds the counters on the way when they have grown long."""
        record = (await lane.fetch(self.snapshot_sql))[0]
        at, counted, unfolded, oldest, due_again = record
        counts = msgspec.json.decode(counted, type=dict[str, int])
        if unfolded > _FOLD_ABOVE:
            await self.fold(lane)
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

    async def fold(self, lane: Lane) -> None:
        """Put the oldest deltas together to one a key; nothing where another folds at this moment."""
        await lane.fetch(self._fold_sql, _FOLD_AT_MOST)
