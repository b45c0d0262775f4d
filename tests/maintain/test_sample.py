"""The gauges: one event with the counts of the tables."""

import time
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from orchestrator import events
from orchestrator.maintain import sample
from tests.clock import Clock
from tests.maintain.rounds import do, reads
from tests.schema.rows import one, put, sleeping_worker

EMPTY = events.GaugesSampled(
    tasks=(),
    oldest_ready_seconds=(),
    dead_letters=(),
    workers=(),
    notification_queue_usage=0.0,
    oldest_snapshot_transactions=None,
    oldest_snapshot_seconds=None,
    leaves_ahead=7,
    took_seconds=0.0,
)


def sampled(connection: psycopg.Connection, heard: list[events.Event]) -> events.GaugesSampled:
    """Sample once. Return the only event."""
    del heard[:]
    assert not do(connection, sample)
    (event,) = heard
    assert isinstance(event, events.GaugesSampled)
    return event


def test_an_empty_database_has_gauges_too(
    connection: psycopg.Connection, clock: Clock, heard: list[events.Event]
) -> None:
    """All counts are 0, and nothing fails."""
    event = sampled(connection, heard)

    assert 0 < event.took_seconds < 5
    shown = (
        "tasks",
        "oldest_ready_seconds",
        "dead_letters",
        "workers",
        "notification_queue_usage",
        "leaves_ahead",
    )
    assert [getattr(EMPTY, name) for name in shown] == [getattr(event, name) for name in shown]


def test_the_gauges_equal_the_tables(
    connection: psycopg.Connection, clock: Clock, heard: list[events.Event]
) -> None:
    """By queue and status; the oldest by the time from which it could run, not by its place in the order."""
    for queue, status, count in (("a", "pending", 2), ("a", "running", 1), ("b", "scheduled", 3)):
        for _ in range(count):
            put(connection, status, queue=queue, run_at=clock.now - timedelta(seconds=count))
    put(connection, queue="a", priority=1, run_at=clock.now - timedelta(hours=1))
    for _ in range(2):
        put(connection, "dead_letter", queue="c")
    put(connection, "completed")
    sleeping_worker(connection, "a")
    connection.execute(
        "UPDATE orchestrator.workers SET state = 'dead' WHERE id = %s", [sleeping_worker(connection)]
    )
    clock.advance(seconds=60)

    event = sampled(connection, heard)

    assert (("a", "pending", 3), ("a", "running", 1), ("b", "scheduled", 3)) == event.tasks
    assert (("a", 3660.0),) == event.oldest_ready_seconds
    assert (("c", 2),) == event.dead_letters
    assert (("dead", 1), ("running", 1)) == event.workers


def test_leaves_ahead_are_counted(
    connection: psycopg.Connection, clock: Clock, heard: list[events.Event]
) -> None:
    """Without a leader the number falls, a day before any failure."""
    clock.advance(days=6)

    assert 1 == sampled(connection, heard).leaves_ahead


@pytest.mark.parametrize(
    "left_open",
    [
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orchestrator.tasks",
        "INSERT INTO orchestrator.tasks (type) VALUES ('mail')",
    ],
)
def test_a_held_horizon_shows_its_age(
    connection: psycopg.Connection, database_url: str, heard: list[events.Event], left_open: str
) -> None:
    """Of a snapshot without writes; and of a transaction that has written, and has no snapshot between its
    statements."""
    with psycopg.connect(database_url) as report:
        report.execute(left_open)
        begun = time.monotonic()
        for _ in range(10):
            put(connection)
        event = sampled(connection, heard)
        held = time.monotonic() - begun

    assert event.oldest_snapshot_transactions is not None
    assert event.oldest_snapshot_seconds is not None
    assert 10 <= event.oldest_snapshot_transactions
    assert held <= event.oldest_snapshot_seconds + 1


@pytest.fixture
def unprivileged(
    administrator: psycopg.Connection, database_url: str, connection: psycopg.Connection
) -> Iterator[psycopg.Connection]:
    """A login that is a member of orchestrator_worker only."""
    name = f"person_{uuid4().hex[:12]}"
    person = sql.Identifier(name)
    administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(person))
    administrator.execute(sql.SQL("GRANT orchestrator_worker TO {}").format(person))
    with psycopg.connect(make_conninfo(database_url, user=name), autocommit=True) as session:
        yield session
    administrator.execute(sql.SQL("DROP ROLE {}").format(person))


def test_a_workers_role_samples_only_visible_values(
    unprivileged: psycopg.Connection, connection: psycopg.Connection, heard: list[events.Event]
) -> None:
    """Snapshots of other roles are hidden from it: the sample has None, and there is no error."""
    put(connection)
    with connection.transaction():
        connection.execute("SELECT 1")
        event = sampled(unprivileged, heard)

    assert (("default", "pending", 1),) == event.tasks
    assert event.oldest_snapshot_seconds is None


def test_every_task_is_read_once(connection: psycopg.Connection) -> None:
    """With a sequential scan, which a worker's session forbids, except in this transaction."""
    connection.execute("INSERT INTO orchestrator.tasks (type) SELECT 'mail' FROM generate_series(1, 3000)")

    def duty(session: psycopg.Connection) -> bool:
        sample(session)
        assert "on" == one(session, "SELECT current_setting('enable_seqscan')")
        return False

    assert (3000, 0, []) == reads(connection, duty, "tasks_live")
    assert "off" == one(connection, "SELECT current_setting('enable_seqscan')")
