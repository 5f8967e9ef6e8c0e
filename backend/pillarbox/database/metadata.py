"""The tables as SQLAlchemy sees them, to prove that the migrations and the code did not drift apart."""

from datetime import datetime

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)

metadata = MetaData()


def _now(name: str) -> Column[datetime]:
    return Column(name, DateTime(timezone=True), nullable=False, server_default=func.now())


people = Table(
    "people",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("name", Text, nullable=False),
    Column("email", Text),
    Column("webhook_url", Text),
    _now("created_at"),
    UniqueConstraint("email", name="people_email_key"),
    schema="accounts",
)

notifications = Table(
    "notifications",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("person_id", Uuid, ForeignKey(people.c.id, ondelete="CASCADE"), nullable=False),
    Column("type", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("body", Text, nullable=False),
    _now("created_at"),
    CheckConstraint(
        "type IN ('mention', 'comment', 'system', 'success', 'security', 'follow')",
        name="notifications_type_check",
    ),
    Index("notifications_person_id_idx", "person_id"),
    schema="notifications",
)

deliveries = Table(
    "notification_deliveries",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("notification_id", Uuid, ForeignKey(notifications.c.id, ondelete="CASCADE"), nullable=False),
    Column("channel", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="pending"),
    Column("attempts", Integer, nullable=False, server_default="0"),
    Column("max_attempts", Integer, nullable=False),
    Column("budget", Integer, nullable=False),
    _now("created_at"),
    _now("next_attempt_at"),
    Column("attempted_at", DateTime(timezone=True)),
    Column("sent_at", DateTime(timezone=True)),
    Column("error_code", Text),
    Column("error_message", Text),
    Column("provider_message_id", Text),
    UniqueConstraint(
        "notification_id", "channel", name="notification_deliveries_notification_id_channel_key"
    ),
    Index(
        "notification_deliveries_due_idx",
        "next_attempt_at",
        "created_at",
        postgresql_where=text("status = 'pending'"),
    ),
    Index(
        "notification_deliveries_leased_idx",
        text("coalesce(attempted_at, created_at)"),
        postgresql_where=text("status = 'processing'"),
    ),
    Index(
        "notification_deliveries_due_again_idx",
        "next_attempt_at",
        postgresql_where=text("status = 'pending' AND attempts > 0"),
    ),
    schema="notifications",
)

depth_deltas = Table(
    "depth_deltas",
    metadata,
    Column("queue", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("delta", BigInteger, nullable=False),
    Column("xid", BigInteger, nullable=False, server_default=text("((pg_current_xact_id())::text)::bigint")),
    Index("depth_deltas_queue_xid_idx", "queue", "xid"),
    schema="queue",
)

depth_folds = Table(
    "depth_folds",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("fold", BigInteger, primary_key=True, autoincrement=False),
    Column("seen_below", BigInteger, nullable=False),
    Column("unseen", ARRAY(BigInteger), nullable=False),
    schema="queue",
)

inbox_messages = Table(
    "messages",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("delivery_id", Uuid, unique=True),
    Column("channel", Text, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("copies", Integer, nullable=False, server_default="1"),
    _now("received_at"),
    schema="inbox",
)
