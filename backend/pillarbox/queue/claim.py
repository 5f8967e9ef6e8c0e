"""The statements of the core: settle, reap, prune and retry by hand, for any queue table.

The claim itself is literal in each table's own description. Every statement here that waits for row
locks takes them in the order of ids, and every other one skips locked rows, so no two of them can
deadlock however they meet.
"""

from collections.abc import Sequence
from typing import Generic, Literal
from uuid import UUID

import msgspec

from pillarbox.database.lane import Lane
from pillarbox.queue.table import QueueTable, RowT

Outcome = Literal["done", "failed", "retry", "release"]


class Report(msgspec.Struct, frozen=True, gc=False):
    """What became of one claimed row. `attempts` is the fence: the counter the claim returned.

    `done` and `failed` are final; `retry` comes again after `delay_seconds`, or is dead when the budget
    is spent; `release` hands the row back with no attempt spent.
    """

    id: UUID
    attempts: int
    outcome: Outcome
    delay_seconds: float = 0.0
    error_code: str | None = None
    error_message: str | None = None
    receipt: str | None = None


class Settled(msgspec.Struct, frozen=True, gc=False):
    """A row a settle or a reap changed, with the status it now has."""

    id: UUID
    status: str


_SETTLE = """\
WITH report AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::int[], $3::text[], $4::float8[], $5::text[], $6::text[], $7::text[])
    AS r (id, attempts, outcome, delay_seconds, error_code, error_message, receipt)
), held AS MATERIALIZED (
  SELECT q.id
  FROM report AS r
  JOIN {name} AS q ON q.id = r.id AND q.attempts = r.attempts
  WHERE q.status IN ('{active}', 'pending', '{dead}')
  ORDER BY q.id
  FOR UPDATE OF q
)
UPDATE {name} AS q
SET status = CASE
      WHEN r.outcome = 'done' THEN '{done}'
      WHEN r.outcome = 'failed' THEN '{failed}'
      WHEN r.outcome = 'retry' AND q.attempts >= q.max_attempts THEN '{dead}'
      ELSE 'pending'
    END,
    max_attempts = q.max_attempts + CASE WHEN r.outcome = 'release' THEN 1 ELSE 0 END,
    next_attempt_at = CASE
      WHEN r.outcome IN ('retry', 'release') THEN clock_timestamp() + make_interval(secs => r.delay_seconds)
      ELSE q.next_attempt_at
    END,
    {done_at} = CASE WHEN r.outcome = 'done' THEN clock_timestamp() ELSE q.{done_at} END,
    {receipt} = CASE WHEN r.outcome = 'done' THEN r.receipt ELSE q.{receipt} END,
    error_code = coalesce(r.error_code, q.error_code),
    error_message = coalesce(r.error_message, q.error_message)
FROM held AS h
JOIN report AS r ON r.id = h.id
WHERE q.id = h.id
  AND q.attempts = r.attempts
  AND CASE r.outcome
        WHEN 'done' THEN q.status IN ('{active}', 'pending', '{dead}')
        WHEN 'release' THEN q.status = '{active}'
        ELSE q.status IN ('{active}', 'pending')
      END
RETURNING q.id AS "id", q.status AS "status"
"""

_REAP = """\
WITH lapsed AS MATERIALIZED (
  SELECT id
  FROM {name}
  WHERE status = '{active}'
    AND coalesce(attempted_at, created_at) < now() - make_interval(secs => $1)
  ORDER BY coalesce(attempted_at, created_at)
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
UPDATE {name} AS q
SET status = CASE WHEN q.attempts >= q.max_attempts THEN '{dead}' ELSE 'pending' END,
    next_attempt_at = now(),
    error_code = 'lease_lapsed',
    error_message = 'the worker of attempt ' || q.attempts || ' did not report within its lease'
FROM lapsed AS l
WHERE q.id = l.id
RETURNING q.id AS "id", q.status AS "status"
"""

_PRUNE = """\
WITH old AS MATERIALIZED (
  SELECT id
  FROM {name}
  -- Ids are UUIDv7, so the primary key is in the order of creation: no index of its own is needed.
  WHERE id < (lpad(to_hex((extract(epoch FROM now() - make_interval(secs => $1)) * 1000)::bigint), 12, '0')
              || repeat('0', 20))::uuid
    AND status = '{status}'
    AND coalesce({done_at}, attempted_at, created_at) < now() - make_interval(secs => $1)
  ORDER BY id
  LIMIT $2
  FOR UPDATE SKIP LOCKED
)
DELETE FROM {name} AS q
USING old AS o
WHERE q.id = o.id
RETURNING q.id AS "id"
"""

_RETRY_BY_HAND = """\
WITH held AS MATERIALIZED (
  SELECT id
  FROM {name}
  WHERE id = ANY ($1::uuid[]) AND status IN ('{failed}', '{dead}')
  ORDER BY id
  FOR UPDATE
)
UPDATE {name} AS q
SET status = 'pending',
    max_attempts = q.attempts + q.budget,
    next_attempt_at = now()
FROM held AS h
WHERE q.id = h.id
RETURNING q.id AS "id", q.status AS "status"
"""

_NEXT_DUE = """\
SELECT extract(epoch FROM next_attempt_at - now())::float8
FROM {name}
WHERE status = 'pending'
ORDER BY next_attempt_at, created_at
LIMIT 1
"""


class Statements(Generic[RowT]):
    """The core's statements for one table, and the calls that run them on a lane."""

    def __init__(self, table: QueueTable[RowT]) -> None:
        names = {
            "name": table.name,
            "active": table.active,
            "done": table.done,
            "failed": table.failed,
            "dead": table.dead,
            "done_at": table.done_at,
            "receipt": table.receipt,
        }
        self.table = table
        self.settle_sql = _SETTLE.format(**names)
        self.reap_sql = _REAP.format(**names)
        self.retry_sql = _RETRY_BY_HAND.format(**names)
        self.next_due_sql = _NEXT_DUE.format(**names)
        self._prune_sql = {
            status: _PRUNE.format(status=status, **names) for status in (table.done, table.failed, table.dead)
        }

    async def claim(self, lane: Lane, limit: int) -> list[RowT]:
        """Take at most `limit` due rows. Never waits for another claimer."""
        # As a number in the text, not as a parameter: for a parameter the server would plan anew at every
        # call, since its generic plan has to suppose that the limit is a tenth of the table. Planning
        # costs as much as claiming five rows.
        claim = self.table.claim.replace("$1", str(int(limit)))
        return [self.table.row(*record) for record in await lane.fetch(claim)]

    async def settle(self, lane: Lane, reports: Sequence[Report]) -> list[Settled]:
        """Write what became of rows; a report whose fence no longer holds is not among the answers."""
        plain = all(report.outcome == "done" for report in reports)
        records = await lane.fetch(
            self.settle_sql,
            [report.id for report in reports],
            [report.attempts for report in reports],
            [report.outcome for report in reports],
            # unnest fills up the shorter arrays with NULL, and what is done has no delay and no error.
            [] if plain else [report.delay_seconds for report in reports],
            [] if plain else [report.error_code for report in reports],
            [] if plain else [report.error_message for report in reports],
            [report.receipt for report in reports],
        )
        return [Settled(*record) for record in records]

    async def reap(self, lane: Lane, lease_seconds: float, limit: int = 1000) -> list[Settled]:
        """Requeue rows whose lease has lapsed, or dead-letter them when their budget is spent."""
        return [Settled(*record) for record in await lane.fetch(self.reap_sql, lease_seconds, limit)]

    async def prune(self, lane: Lane, status: str, older_than_seconds: float, limit: int = 1000) -> int:
        """Delete one small batch of finished rows; answers how many went."""
        return len(await lane.fetch(self._prune_sql[status], older_than_seconds, limit))

    async def retry_by_hand(self, lane: Lane, ids: Sequence[UUID]) -> list[Settled]:
        """Give failed or dead rows a fresh budget by raising `max_attempts`; the fence stays as it is."""
        return [Settled(*record) for record in await lane.fetch(self.retry_sql, list(ids))]

    async def next_due_seconds(self, lane: Lane) -> float | None:
        """Seconds until the next pending row falls due (negative: overdue), None without one."""
        records = await lane.fetch(self.next_due_sql)
        return records[0][0] if records else None
