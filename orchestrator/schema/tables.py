"""The tables for SQLAlchemy: public, for users' own queries (docs/howto/enqueue-with-sqlalchemy.md), and what Alembic
compares against. For reading: an INSERT through these would choose an id itself.

The leaves are not here: users name `tasks`, and the status decides the leaf of a row. What SQLAlchemy cannot express
(partitions, storage settings, grants) is only in the migrations.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    FetchedValue,
    Identity,
    Index,
    Integer,
    Interval,
    PrimaryKeyConstraint,
    Sequence,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, OID

from orchestrator.schema.metadata import CLOCK, MOMENT, metadata
from orchestrator.schema.statistics_tables import samples, statistics, statistics_by_hour

__all__ = [
    "attempts", "audit", "gate_changes", "home", "idempotency_keys", "metadata", "permits_returned", "queues",
    "samples", "settings", "statistics", "statistics_by_hour", "tasks", "types", "workers",
]  # fmt: skip

tasks_id_seq = Sequence("tasks_id_seq", metadata=metadata, data_type=BigInteger)
term_seq = Sequence("term_seq", metadata=metadata, data_type=BigInteger)

NAMED = "char_length({0}) BETWEEN 1 AND 200 AND {0} !~ '[[:cntrl:]]'"


def up_to(most: str, table: str, *columns: str) -> list[CheckConstraint]:
    """Bound spans of time."""
    return [
        CheckConstraint(
            f"{column} BETWEEN interval '0' AND interval '{most}'", name=f"{table}_{column}_check"
        )
        for column in columns
    ]


def defaults(table: str) -> list[CheckConstraint]:
    """The bounds that a task, a type and a queue share."""
    return [
        CheckConstraint("priority BETWEEN 0 AND 100", name=f"{table}_priority_check"),
        CheckConstraint("max_attempts >= 1", name=f"{table}_max_attempts_check"),
    ]


tasks = Table(
    "tasks",
    metadata,
    # Unique, but only leaf by leaf: a key of the root would have to hold the partition key.
    Column("id", BigInteger, server_default=FetchedValue(), nullable=False),
    Column("position", BigInteger, server_default=FetchedValue(), nullable=False),
    Column("lease", BigInteger),
    Column("run_at", MOMENT, nullable=False),
    Column("created_at", MOMENT, server_default=CLOCK, nullable=False),
    *(Column(name, MOMENT) for name in ("claimed_at", "started_at", "finished_at", "deadline")),
    *(Column(name, BigInteger) for name in ("lane", "workflow_id", "parent_id")),
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
    *(Column(name, JSONB) for name in ("result", "error", "progress")),
    Column("tags", ARRAY(Text)),
    Column("metadata", JSONB),
    Column("trace_context", JSONB),
    Column("tenant", Text),
    *(Column(name, ARRAY(Text)) for name in ("limits", "requires")),
    *(Column(name, ARRAY(BigInteger)) for name in ("holds", "gates")),
    postgresql_partition_by="LIST (status)",
)

types = Table(
    "types",
    metadata,
    Column("name", Text, primary_key=True),
    Column("queue", Text, server_default="default", nullable=False),
    *(Column(name, SmallInteger) for name in ("priority", "max_attempts")),
    Column("timeout", Interval),
    Column("backoff_base", Interval, server_default=text("interval '1 second'"), nullable=False),
    Column("backoff_factor", Double, server_default=text("2"), nullable=False),
    Column("backoff_cap", Interval, server_default=text("interval '300 seconds'"), nullable=False),
    Column("backoff_jitter", Double, server_default=text("0.1"), nullable=False),
    Column("declared_at", MOMENT, server_default=CLOCK, nullable=False),
    CheckConstraint(NAMED.format("name"), name="types_name_check"),
    CheckConstraint(NAMED.format("queue"), name="types_queue_check"),
    CheckConstraint("backoff_factor BETWEEN 1 AND 1000", name="types_backoff_factor_check"),
    CheckConstraint("backoff_jitter BETWEEN 0 AND 1", name="types_backoff_jitter_check"),
    *defaults("types"),
    *up_to("100 years", "types", "backoff_base", "backoff_cap", "timeout"),
)

queues = Table(
    "queues",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, server_default="active", nullable=False),
    Column("state_since", MOMENT, server_default=CLOCK, nullable=False),
    *(Column(name, Text) for name in ("state_by", "state_reason")),
    *(Column(name, SmallInteger) for name in ("priority", "max_attempts")),
    Column("timeout", Interval),
    Column("aging", Interval, server_default=text("interval '1000 years'"), nullable=False),
    Column("keep_finished", Interval, server_default=text("interval '7 days'"), nullable=False),
    Column("keep_dead", Interval, server_default=text("interval '30 days'"), nullable=False),
    CheckConstraint(NAMED.format("name"), name="queues_name_check"),
    CheckConstraint(
        "state_since BETWEEN '1970-01-01 UTC' AND '9000-01-01 UTC'", name="queues_state_since_check"
    ),
    CheckConstraint("state IN ('active', 'paused', 'draining')", name="queues_state_check"),
    *defaults("queues"),
    *up_to("100 years", "queues", "timeout"),
    *up_to("1000 years", "queues", "aging", "keep_finished", "keep_dead"),
)

permits_returned = Table(
    "permits_returned",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("hold", BigInteger, nullable=False),
    Column("permits", BigInteger, nullable=False),
)

gate_changes = Table(
    "gate_changes",
    metadata,
    Column("id", BigInteger, Identity(always=True), nullable=False),
    Column("gate", BigInteger, nullable=False),
    Column("ended", BigInteger, nullable=False),
    *(Column(name, BigInteger, server_default=text("0"), nullable=False) for name in ("failed", "lost")),
    Index("gate_changes_gate_idx", "gate"),
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
    Column("dead_after", Interval, server_default=text("interval '30 seconds'"), nullable=False),
    Column("idle_until", MOMENT),
    Column("beacon", BigInteger),
    Column("blocked_at", MOMENT),
    Column("is_leader", Boolean, server_default=text("false"), nullable=False),
    Column("leader_until", MOMENT),
    Column("term", BigInteger),
    Column("workplace", OID, nullable=False),
    CheckConstraint("state IN ('running', 'draining', 'stopped', 'dead')", name="workers_state_check"),
    CheckConstraint(
        "dead_after > interval '0' AND dead_after <= interval '1000 days'", name="workers_dead_after_check"
    ),
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
    CheckConstraint(
        "outcome IN ('failed', 'timeout', 'lost', 'discarded', 'released', 'snoozed')",
        name="attempts_outcome_check",
    ),
    Index("attempts_task_idx", "task_id", "lease", unique=True),
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

audit = Table(
    "audit",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("at", MOMENT, server_default=CLOCK, nullable=False),
    Column("actor", Text, server_default=text("session_user"), nullable=False),
    Column("action", Text, nullable=False),
    Column("task_id", BigInteger),
    *(Column(name, Text) for name in ("queue", "reason")),
    Column("details", JSONB),
    Index("audit_task_idx", "task_id"),
    Index("audit_at_idx", "at"),
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
    *up_to("1000 years", "settings", "keep_audit", "keep_workers", "keep_statistics"),
)

home = Table(
    "home",
    metadata,
    Column("place", ARRAY(OID), nullable=False),
    Column("database", Text, server_default=text("current_database()"), nullable=False),
    Column("since", MOMENT, server_default=CLOCK, nullable=False),
)
