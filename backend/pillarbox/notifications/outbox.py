"""The outbox as a queue table: the claim, literal, and the row it returns."""

from uuid import UUID

from pillarbox.queue.table import Claimed, QueueTable

# The limited, locking part stands in a MATERIALIZED CTE, not in a joined subquery: as the inner side of a
# nested loop the planner may run a subquery once for each outer row, and every run would lock and claim
# `LIMIT` further rows. A materialised CTE runs once under any plan.
CLAIM = """\
WITH c AS MATERIALIZED (
  SELECT id
  FROM notifications.notification_deliveries
  WHERE status = 'pending' AND next_attempt_at <= now()
  ORDER BY next_attempt_at, created_at
  LIMIT $1
  FOR UPDATE SKIP LOCKED
)
UPDATE notifications.notification_deliveries AS d
SET status = 'processing', attempts = d.attempts + 1, attempted_at = now()
FROM c, notifications.notifications AS n
WHERE d.id = c.id AND n.id = d.notification_id
RETURNING d.id AS "id", d.attempts AS "attempts", d.max_attempts AS "maxAttempts", d.budget AS "budget",
  d.notification_id AS "notificationId", d.channel AS "channel", d.address AS "address",
  n.title AS "title", n.body AS "body"
"""


class ClaimedDelivery(Claimed, frozen=True):
    """One delivery as the claim returns it, its notification's text included."""

    notification_id: UUID
    channel: str
    address: str
    title: str
    body: str


OUTBOX = QueueTable(
    queue="outbox",
    name="notifications.notification_deliveries",
    claim=CLAIM,
    row=ClaimedDelivery,
    active="processing",
    done="sent",
    failed="failed",
    dead="dead",
    done_at="sent_at",
    receipt="provider_message_id",
)
