"""The outbox, its recipients, the depth counters and the built-in inbox.

Revision ID: 0001
Revises:
"""

from pillarbox.database.migrate import run_script

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

UP = """
CREATE SCHEMA accounts;
CREATE SCHEMA notifications;
CREATE SCHEMA queue;
CREATE SCHEMA inbox;

CREATE TABLE accounts.people (
  id uuid CONSTRAINT people_pkey PRIMARY KEY,
  name text NOT NULL,
  email text CONSTRAINT people_email_key UNIQUE,
  webhook_url text,
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE notifications.notifications (
  id uuid CONSTRAINT notifications_pkey PRIMARY KEY,
  person_id uuid NOT NULL
    CONSTRAINT notifications_person_id_fkey REFERENCES accounts.people ON DELETE CASCADE,
  type text NOT NULL
    CONSTRAINT notifications_type_check
    CHECK (type IN ('mention', 'comment', 'system', 'success', 'security', 'follow')),
  title text NOT NULL,
  body text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX notifications_person_id_idx ON notifications.notifications (person_id);

CREATE TABLE notifications.notification_deliveries (
  id uuid CONSTRAINT notification_deliveries_pkey PRIMARY KEY,
  notification_id uuid NOT NULL
    CONSTRAINT notification_deliveries_notification_id_fkey
    REFERENCES notifications.notifications ON DELETE CASCADE,
  channel text NOT NULL,
  address text NOT NULL,
  status text NOT NULL DEFAULT 'pending'
    CONSTRAINT notification_deliveries_status_check
    CHECK (status IN ('pending', 'processing', 'sent', 'failed', 'dead')),
  attempts integer NOT NULL DEFAULT 0,
  max_attempts integer NOT NULL,
  budget integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  next_attempt_at timestamptz NOT NULL DEFAULT now(),
  attempted_at timestamptz,
  sent_at timestamptz,
  error_code text,
  error_message text,
  provider_message_id text,
  CONSTRAINT notification_deliveries_notification_id_channel_key UNIQUE (notification_id, channel),
  CONSTRAINT notification_deliveries_budget_check
    CHECK (attempts >= 0 AND budget > 0 AND max_attempts >= budget)
) WITH (
  -- Every row is rewritten twice in its life: leave room for the new version on its page, and vacuum
  -- by the thousand, not by the fifth of a history.
  fillfactor = 70,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_vacuum_cost_delay = 0
);
-- What the claim reads, in its order.
CREATE INDEX notification_deliveries_due_idx
  ON notifications.notification_deliveries (next_attempt_at, created_at)
  WHERE status = 'pending';
-- What the reaper reads.
CREATE INDEX notification_deliveries_leased_idx
  ON notifications.notification_deliveries (coalesce(attempted_at, created_at))
  WHERE status = 'processing';
-- What tells retries that wait from retries that are due.
CREATE INDEX notification_deliveries_due_again_idx
  ON notifications.notification_deliveries (next_attempt_at)
  WHERE status = 'pending' AND attempts > 0;

-- Depth: every statement appends what it changed; a reader sums, a folder shortens. Appending, since
-- one counter row a status would make all writers wait for each other.
CREATE TABLE queue.depth_deltas (
  queue text NOT NULL,
  key text NOT NULL,
  delta bigint NOT NULL,
  -- The transaction that appended it.
  xid bigint NOT NULL DEFAULT (pg_current_xact_id()::text::bigint)
) WITH (
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX depth_deltas_queue_xid_idx ON queue.depth_deltas (queue, xid);

-- What the newest fold of a queue saw: every transaction below `seen_below` except the `unseen`, which were
-- still under way. All that it saw it deleted, so whoever sums need not walk over the deleted deltas, which
-- stay in the table as long as any old transaction anywhere is open. An index scan from the newest end: a
-- row updated in place would gather its own dead versions meanwhile.
CREATE TABLE queue.depth_folds (
  queue text NOT NULL,
  fold bigint NOT NULL,
  seen_below bigint NOT NULL,
  unseen bigint[] NOT NULL,
  CONSTRAINT depth_folds_pkey PRIMARY KEY (queue, fold)
);
INSERT INTO queue.depth_folds (queue, fold, seen_below, unseen) VALUES ('outbox', 0, 0, '{}');

CREATE FUNCTION queue.count_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue.depth_deltas (queue, key, delta)
  SELECT TG_ARGV[0], coalesce(key, 'enqueued'), n
  FROM (
    SELECT CASE WHEN status = 'pending' AND attempts > 0 THEN 'pending_again' ELSE status END AS key,
           count(*) AS n
    FROM new_rows
    GROUP BY ROLLUP (1)
  ) AS counted
  WHERE n > 0;
  RETURN NULL;
END
$$;

CREATE FUNCTION queue.count_updated() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  WITH moved AS MATERIALIZED (
    SELECT key, sum(n) AS delta
    FROM (
      SELECT CASE WHEN status = 'pending' AND attempts > 0 THEN 'pending_again' ELSE status END AS key,
             -1 AS n
      FROM old_rows
      UNION ALL
      SELECT CASE WHEN status = 'pending' AND attempts > 0 THEN 'pending_again' ELSE status END, 1
      FROM new_rows
    ) AS both_sides
    GROUP BY key
    HAVING sum(n) <> 0
  )
  INSERT INTO queue.depth_deltas (queue, key, delta)
  SELECT TG_ARGV[0], key, delta
  FROM moved
  UNION ALL
  SELECT TG_ARGV[0], 'settled', sum(delta)
  FROM moved
  WHERE key = ANY (TG_ARGV[1]::text[])
  HAVING sum(delta) > 0;
  RETURN NULL;
END
$$;

CREATE FUNCTION queue.count_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue.depth_deltas (queue, key, delta)
  SELECT TG_ARGV[0],
         CASE WHEN status = 'pending' AND attempts > 0 THEN 'pending_again' ELSE status END,
         -count(*)
  FROM old_rows
  GROUP BY 2;
  RETURN NULL;
END
$$;

CREATE FUNCTION queue.count_truncated() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM queue.depth_deltas WHERE queue = TG_ARGV[0] AND key NOT IN ('enqueued', 'settled');
  RETURN NULL;
END
$$;

CREATE TRIGGER count_inserted
  AFTER INSERT ON notifications.notification_deliveries
  REFERENCING NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION queue.count_inserted('outbox');
CREATE TRIGGER count_updated
  AFTER UPDATE ON notifications.notification_deliveries
  REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
  FOR EACH STATEMENT EXECUTE FUNCTION queue.count_updated('outbox', '{sent,failed,dead}');
CREATE TRIGGER count_deleted
  AFTER DELETE ON notifications.notification_deliveries
  REFERENCING OLD TABLE AS old_rows
  FOR EACH STATEMENT EXECUTE FUNCTION queue.count_deleted('outbox');
CREATE TRIGGER count_truncated
  AFTER TRUNCATE ON notifications.notification_deliveries
  FOR EACH STATEMENT EXECUTE FUNCTION queue.count_truncated('outbox');

CREATE TABLE inbox.messages (
  id uuid CONSTRAINT messages_pkey PRIMARY KEY,
  delivery_id uuid CONSTRAINT messages_delivery_id_key UNIQUE,
  channel text NOT NULL,
  recipient text NOT NULL,
  subject text NOT NULL,
  body text NOT NULL,
  copies integer NOT NULL DEFAULT 1,
  received_at timestamptz NOT NULL DEFAULT now()
);
"""

DOWN = """
DROP TABLE inbox.messages;
DROP TABLE notifications.notification_deliveries;
DROP TABLE notifications.notifications;
DROP TABLE accounts.people;
DROP FUNCTION queue.count_truncated();
DROP FUNCTION queue.count_deleted();
DROP FUNCTION queue.count_updated();
DROP FUNCTION queue.count_inserted();
DROP TABLE queue.depth_folds;
DROP TABLE queue.depth_deltas;
DROP SCHEMA inbox;
DROP SCHEMA queue;
DROP SCHEMA notifications;
DROP SCHEMA accounts;
"""


def upgrade() -> None:
    """Create everything."""
    run_script(UP)


def downgrade() -> None:
    """Drop everything."""
    run_script(DOWN)
