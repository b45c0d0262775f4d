"""The tables for SQLAlchemy with the counts: the leader's samples, and the workers' statistics over time."""

from typing import Any

from sqlalchemy import BigInteger, Column, Double, Interval, PrimaryKeyConstraint, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from orchestrator.schema.metadata import MOMENT, metadata
from orchestrator.task.tally import WORDS

samples = Table(
    "samples",
    metadata,
    Column("queue", Text, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("pending", "scheduled", "blocked", "claimed", "running", "dead_letters")
    ),
    Column("oldest_ready_at", MOMENT),
    Column("next_due_at", MOMENT),
    Column("sampled_at", MOMENT, nullable=False),
    Column("took", Interval, nullable=False),
)


def counted() -> list[Column[Any]]:
    """Return the columns of the counts by the minute and by the hour: histograms of times, and attempts by outcome."""
    return [
        Column("wait_seconds", Double, server_default=text("0"), nullable=False),
        Column("run_seconds", Double, server_default=text("0"), nullable=False),
        Column("wait", JSONB, server_default="{}", nullable=False),
        Column("run", JSONB, server_default="{}", nullable=False),
        # Last, because a later revision adds a column behind the others.
        *(Column(word, BigInteger, server_default=text("0"), nullable=False) for word in WORDS),
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
