"""The tables for SQLAlchemy: what Alembic compares against, and what users write their own queries with.

Leaves are not here: people name `tasks`, and which leaf a row lies in is told by its status. What SQLAlchemy has
no words for (partitions, storage settings, grants) is in the migrations alone.
"""

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    DateTime,
    Double,
    Identity,
    Index,
    Integer,
    Interval,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, OID

from orchestrator.task.tally import WORDS

metadata = MetaData(schema="orchestrator")
CLOCK = text("orchestrator.clock()")
MOMENT = DateTime(timezone=True)

tasks_id_seq = Sequence("tasks_id_seq", metadata=metadata, data_type=BigInteger)
term_seq = Sequence("term_seq", metadata=metadata, data_type=BigInteger)

NEXT_ID = text("nextval('orchestrator.tasks_id_seq'::regclass)")

NAMED = "char_length({0}) BETWEEN 1 AND 200 AND {0} !~ '[[:cntrl:]]'"
POSITION = (
    "(date_part('epoch'::text, (run_at AT TIME ZONE 'UTC'::text)) * (1000000)::double precision)::bigint"
    " + (aging_us * (100 - priority))"
)

tasks = Table(
    "tasks",
    metadata,
    # Unique, but only leaf by leaf: a key of the root would have to hold the partition key.
    Column("id", BigInteger, tasks_id_seq, server_default=NEXT_ID, nullable=False),
    Column("position", BigInteger, Computed(POSITION, persisted=True), nullable=False),
    Column("lease", BigInteger),
    Column("run_at", MOMENT, nullable=False),
    Column("created_at", MOMENT, server_default=CLOCK, nullable=False),
    Column("claimed_at", MOMENT),
    Column("started_at", MOMENT),
    Column("finished_at", MOMENT),
    Column("aging_us", BigInteger, nullable=False),
    Column("timeout", Interval, nullable=False),
    Column("worker_id", Uuid),
    Column("priority", SmallInteger, nullable=False),
    Column("attempt", SmallInteger, server_default=text("0"), nullable=False),
    Column("max_attempts", SmallInteger, nullable=False),
    Column("losses", SmallInteger, server_default=text("0"), nullable=False),
    Column("status", Text, server_default="pending", nullable=False),
    Column("queue", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", JSONB, server_default="{}", nullable=False),
    Column("idempotency_key", Text),
    Column("result", JSONB),
    Column("error", JSONB),
    Column("progress", JSONB),
    Column("tags", ARRAY(Text)),
    Column("metadata", JSONB),
    Column("trace_context", JSONB),
    CheckConstraint("priority BETWEEN 0 AND 100", name="tasks_priority_check"),
    CheckConstraint("max_attempts >= 1", name="tasks_max_attempts_check"),
    postgresql_partition_by="LIST (status)",
)

types = Table(
    "types",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text, server_default="default", nullable=False),
    Column("priority", SmallInteger),
    Column("max_attempts", SmallInteger),
    Column("timeout", Interval),
    Column("backoff_base", Interval, server_default=text("interval '1 second'"), nullable=False),
    Column("backoff_factor", Double, server_default=text("2"), nullable=False),
    Column("backoff_cap", Interval, server_default=text("interval '300 seconds'"), nullable=False),
    Column("backoff_jitter", Double, server_default=text("0.1"), nullable=False),
    Column("declared_at", MOMENT, server_default=CLOCK, nullable=False),
    CheckConstraint(NAMED.format("name"), name="types_name_check"),
    CheckConstraint(NAMED.format("queue"), name="types_queue_check"),
    CheckConstraint(
        "backoff_base BETWEEN interval '0' AND interval '100 years'", name="types_backoff_base_check"
    ),
    CheckConstraint("backoff_factor BETWEEN 1 AND 1000", name="types_backoff_factor_check"),
    CheckConstraint(
        "backoff_cap BETWEEN interval '0' AND interval '100 years'", name="types_backoff_cap_check"
    ),
    CheckConstraint("backoff_jitter BETWEEN 0 AND 1", name="types_backoff_jitter_check"),
    CheckConstraint("priority BETWEEN 0 AND 100", name="types_priority_check"),
    CheckConstraint("max_attempts >= 1", name="types_max_attempts_check"),
    CheckConstraint("timeout BETWEEN interval '0' AND interval '100 years'", name="types_timeout_check"),
)

queues = Table(
    "queues",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, server_default="active", nullable=False),
    Column("state_since", MOMENT, server_default=CLOCK, nullable=False),
    Column("state_by", Text),
    Column("state_reason", Text),
    Column("priority", SmallInteger),
    Column("max_attempts", SmallInteger),
    Column("timeout", Interval),
    Column("aging", Interval, server_default=text("interval '1000 years'"), nullable=False),
    Column("keep_finished", Interval, server_default=text("interval '7 days'"), nullable=False),
    Column("keep_dead", Interval, server_default=text("interval '30 days'"), nullable=False),
    CheckConstraint(NAMED.format("name"), name="queues_name_check"),
    CheckConstraint(
        "state_since BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'", name="queues_state_since_check"
    ),
    CheckConstraint("state IN ('active', 'paused', 'draining')", name="queues_state_check"),
    CheckConstraint("priority BETWEEN 0 AND 100", name="queues_priority_check"),
    CheckConstraint("max_attempts >= 1", name="queues_max_attempts_check"),
    CheckConstraint("timeout BETWEEN interval '0' AND interval '100 years'", name="queues_timeout_check"),
    CheckConstraint("aging BETWEEN interval '0' AND interval '1000 years'", name="queues_aging_check"),
    CheckConstraint(
        "keep_finished BETWEEN interval '0' AND interval '1000 years'", name="queues_keep_finished_check"
    ),
    CheckConstraint(
        "keep_dead BETWEEN interval '0' AND interval '1000 years'", name="queues_keep_dead_check"
    ),
)

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("version", Text, nullable=False),
    Column("queues", ARRAY(Text), nullable=False),
    Column("types", ARRAY(Text)),
    Column("capacity", Integer, nullable=False),
    Column("state", Text, server_default="running", nullable=False),
    Column("started_at", MOMENT, server_default=CLOCK, nullable=False),
    Column("beat_at", MOMENT, server_default=CLOCK, nullable=False),
    Column("idle_until", MOMENT),
    Column("beacon", BigInteger),
    Column("is_leader", Boolean, server_default=text("false"), nullable=False),
    Column("leader_until", MOMENT),
    Column("term", BigInteger),
    Column("workplace", OID, nullable=False),
    CheckConstraint("state IN ('running', 'draining', 'stopped', 'dead')", name="workers_state_check"),
    CheckConstraint(
        "least(started_at, beat_at, idle_until, leader_until) >= '1970-01-01 UTC'"
        " AND greatest(started_at, beat_at, idle_until, leader_until) <= '9000-01-01 UTC'",
        name="workers_times_check",
    ),
    CheckConstraint(
        "NOT is_leader OR (term IS NOT NULL AND leader_until IS NOT NULL)", name="workers_leader_check"
    ),
    Index("workers_live_idx", "id", postgresql_where=text("state IN ('running', 'draining')")),
    Index("workers_one_leader_idx", "is_leader", unique=True, postgresql_where=text("is_leader")),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("task_id", BigInteger, nullable=False),
    Column("attempt", SmallInteger, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("error", JSONB),
    Column("lease", BigInteger),
    Column("worker_id", Uuid),
    Column("started_at", MOMENT),
    Column("finished_at", MOMENT, server_default=CLOCK, nullable=False),
    CheckConstraint("outcome IN ('failed', 'timeout', 'lost', 'discarded')", name="attempts_outcome_check"),
    Index("attempts_task_idx", "task_id"),
    Index("attempts_queue_idx", "queue", "finished_at"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("type", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("expires_at", MOMENT, nullable=False),
    PrimaryKeyConstraint("type", "key", name="idempotency_keys_pkey"),
    Index("idempotency_keys_expires_idx", "expires_at"),
)

samples = Table(
    "samples",
    metadata,
    Column("queue", Text, primary_key=True),
    Column("pending", BigInteger, nullable=False),
    Column("scheduled", BigInteger, nullable=False),
    Column("blocked", BigInteger, nullable=False),
    Column("claimed", BigInteger, nullable=False),
    Column("running", BigInteger, nullable=False),
    Column("dead_letters", BigInteger, nullable=False),
    Column("oldest_ready_at", MOMENT),
    Column("next_due_at", MOMENT),
    Column("sampled_at", MOMENT, nullable=False),
    Column("took", Interval, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", MOMENT, server_default=CLOCK, nullable=False),
    Column("actor", Text, server_default=text("session_user"), nullable=False),
    Column("action", Text, nullable=False),
    Column("task_id", BigInteger),
    Column("queue", Text),
    Column("reason", Text),
    Column("details", JSONB),
    Index("audit_task_idx", "task_id"),
    Index("audit_at_idx", "at"),
)


def counted() -> list[Column[Any]]:
    """Return what is counted by the minute and by the hour: attempts by their ends, and times by their sizes."""
    return [
        *(Column(word, BigInteger, server_default=text("0"), nullable=False) for word in WORDS),
        Column("wait_seconds", Double, server_default=text("0"), nullable=False),
        Column("run_seconds", Double, server_default=text("0"), nullable=False),
        Column("wait", JSONB, server_default="{}", nullable=False),
        Column("run", JSONB, server_default="{}", nullable=False),
    ]


statistics = Table(
    "statistics",
    metadata,
    Column("minute", MOMENT, nullable=False),
    Column("queue", Text, nullable=False),
    Column("type", Text, nullable=False),
    *counted(),
    PrimaryKeyConstraint("minute", "queue", "type", name="statistics_pkey"),
)

statistics_by_hour = Table(
    "statistics_by_hour",
    metadata,
    Column("hour", MOMENT, nullable=False),
    Column("queue", Text, nullable=False),
    Column("type", Text, nullable=False),
    *counted(),
    PrimaryKeyConstraint("hour", "queue", "type", name="statistics_by_hour_pkey"),
)

settings = Table(
    "settings",
    metadata,
    Column("only_row", Boolean, server_default=text("true"), primary_key=True),
    Column("oldest_code", Integer, nullable=False),
    Column("payload_bytes_max", Integer, server_default=text("262144"), nullable=False),
    Column("keep_audit", Interval, server_default=text("interval '90 days'"), nullable=False),
    Column("keep_workers", Interval, server_default=text("interval '1 day'"), nullable=False),
    Column("keep_statistics", Interval, server_default=text("interval '14 days'"), nullable=False),
    CheckConstraint("only_row", name="settings_only_row_check"),
    CheckConstraint("payload_bytes_max > 0", name="settings_payload_bytes_max_check"),
    CheckConstraint(
        "keep_audit BETWEEN interval '0' AND interval '1000 years'", name="settings_keep_audit_check"
    ),
    CheckConstraint(
        "keep_workers BETWEEN interval '0' AND interval '1000 years'", name="settings_keep_workers_check"
    ),
    CheckConstraint(
        "keep_statistics BETWEEN interval '0' AND interval '1000 years'",
        name="settings_keep_statistics_check",
    ),
)

home = Table(
    "home",
    metadata,
    Column("place", ARRAY(OID), nullable=False),
    Column("database", Text, server_default=text("current_database()"), nullable=False),
    Column("since", MOMENT, server_default=CLOCK, nullable=False),
)
