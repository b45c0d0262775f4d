"""The functions and views for operators: requeue, cancel, the state of a queue, and the views."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import NullPool, create_engine, select

from orchestrator.postgres import connect
from orchestrator.schema import tables
from tests.schema.rows import WORKER, insert, one, put, read, refusal

DEAD_LETTERS: LiteralString = """
    INSERT INTO orchestrator.tasks_dead (
        id, type, queue, status, priority, max_attempts, attempt, timeout, aging_us, run_at, finished_at, payload, error
    )
    SELECT
        nextval('orchestrator.tasks_id_seq'),
        'mail', 'default', 'dead_letter', 50, 4, 4, '5 min', 0, now(), now(), '{"user": 1}', '{"class": "ValueError"}'
    FROM generate_series(1, %s)
"""


def test_requeue_runs_a_task_again_and_keeps_the_reason(connection: psycopg.Connection) -> None:
    """True, and the task is pending with fresh attempts."""
    task_id = put(connection, "dead_letter")

    assert one(connection, "SELECT orchestrator.requeue(%s, 'the mail server is back')", [task_id])
    assert ("pending", 0) == read(connection, task_id, "status", "attempt")
    assert "the mail server is back" == one(connection, "SELECT reason FROM orchestrator.audit")


@pytest.mark.parametrize("function", ["requeue", "cancel"])
@pytest.mark.parametrize("task_id", ["4711", "NULL"])
def test_an_unknown_task_is_an_error(
    connection: psycopg.Connection, function: LiteralString, task_id: LiteralString
) -> None:
    """A mistyped id must not look like a success."""
    diagnostic = refusal(connection, f"SELECT orchestrator.{function}({task_id})")

    assert ("OR004", f"there is no task {task_id}") == (diagnostic.sqlstate, diagnostic.message_primary)


def test_cancel_is_true_also_the_second_time(connection: psycopg.Connection) -> None:
    """The task is cancelled, as the caller wanted; the first cancel is on record."""
    task_id = put(connection)

    twice = [one(connection, "SELECT orchestrator.cancel(%s)", [task_id]) for _ in range(2)]

    assert [True, True] == twice
    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.audit")


@pytest.mark.parametrize("status", ["completed", "dead_letter"])
def test_an_ended_task_cannot_be_cancelled(connection: psycopg.Connection, status: str) -> None:
    """The HINT says what to do instead."""
    diagnostic = refusal(connection, "SELECT orchestrator.cancel(%s)", [put(connection, status)])

    assert "OR001" == diagnostic.sqlstate
    assert diagnostic.message_hint


def test_requeue_where_requeues_exactly_the_matching_tasks(connection: psycopg.Connection) -> None:
    """Every filter counts, the dry run changes nothing, at_most selects the oldest."""
    for number in range(3):
        put(
            connection,
            "dead_letter",
            queue="mail",
            finished_at=f"2026-01-0{number + 1} UTC",
            error=Jsonb({"class": "IOError"}),
        )
    put(connection, "dead_letter", queue="reports")
    put(connection, "dead_letter", type="sms", queue="sms")
    put(connection, "completed", queue="mail")
    asked: list[LiteralString] = [
        "queue => 'mail', dry_run => true",
        "error_class => 'IOError', dry_run => true",
        "status => 'completed', dry_run => true",
        "type => 'sms', dry_run => true",
        "finished_after => '2026-01-02 UTC', finished_before => '2026-01-03 UTC', dry_run => true",
        "queue => 'nobody'",
        "queue => 'mail', at_most => 2, reason => 'again'",
        "status => 'dead_letter'",
    ]

    counts = [one(connection, f"SELECT orchestrator.requeue_where({how})") for how in asked]

    assert [3, 3, 1, 1, 1, 0, 2, 3] == counts
    assert 2 == one(connection, "SELECT count(*) FROM orchestrator.audit WHERE reason = 'again'")


@pytest.mark.parametrize(
    "how", ["", "dry_run => true", "reason => 'all of it'", "at_most => 10", "status => 'pending'"]
)
def test_requeue_where_needs_a_filter(connection: psycopg.Connection, how: LiteralString) -> None:
    """Without a filter it would requeue everything. It does not touch tasks that have not ended."""
    diagnostic = refusal(connection, f"SELECT orchestrator.requeue_where({how})")

    assert "OR006" == diagnostic.sqlstate
    assert diagnostic.message_hint


@pytest.mark.long
def test_a_hundred_thousand_dead_letters_go_back_by_one_update(
    connection: psycopg.Connection, record_property: Callable[[str, object], None]
) -> None:
    """Also in a session that has requeued a single one before: it must not use the plans from then."""
    connection.execute("SET statement_timeout = '120 s'")
    connection.execute(DEAD_LETTERS, [1])
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE status = 'dead_letter'")
    connection.execute(DEAD_LETTERS, [100_000])

    began = time.monotonic()
    requeued = connection.execute(
        "UPDATE orchestrator.tasks SET status = 'pending' WHERE status = 'dead_letter'"
    )

    record_property("seconds", round(time.monotonic() - began, 1))
    print(f"requeue of 100,000 dead letters: {time.monotonic() - began:.1f} s")  # noqa: T201 - a measurement
    assert 100_000 == requeued.rowcount
    assert 100_001 == one(connection, "SELECT count(*) FROM orchestrator.audit WHERE action = 'requeue'")
    began = time.monotonic()
    connection.execute("DELETE FROM orchestrator.tasks")
    print(f"delete of 100,001 tasks: {time.monotonic() - began:.1f} s")  # noqa: T201


def test_a_queue_is_paused_drained_and_resumed(connection: psycopg.Connection) -> None:
    """The queue has the state, the role and the reason; each change is on record."""
    states = [
        one(connection, f"SELECT orchestrator.{function}('default', 'deploy')")
        for function in ("pause_queue", "drain_queue", "resume_queue")
    ]

    assert ["paused", "draining", "active"] == states
    row = connection.execute(
        "SELECT state, state_by = session_user, state_reason FROM orchestrator.queues"
    ).fetchone()
    assert ("active", True, "deploy") == row
    audit = connection.execute(
        "SELECT action, details ->> 'from', details ->> 'to' FROM orchestrator.audit ORDER BY id"
    ).fetchall()
    assert [
        ("pause", "active", "paused"),
        ("drain", "paused", "draining"),
        ("resume", "draining", "active"),
    ] == audit


@pytest.mark.parametrize("state", ["'stopped'", "''", "NULL"])
def test_a_queue_has_no_other_state(connection: psycopg.Connection, state: LiteralString) -> None:
    """The common function of the three may be called directly, and lists the valid states."""
    diagnostic = refusal(connection, f"SELECT orchestrator.set_queue_state('default', {state}, 'deploy')")

    assert ("OR006", f"a queue cannot be {state}", "It is active, paused or draining.") == (
        diagnostic.sqlstate,
        diagnostic.message_primary,
        diagnostic.message_hint,
    )


@pytest.mark.parametrize("function", ["pause_queue", "drain_queue", "resume_queue"])
@pytest.mark.parametrize("queue", ["'defualt'", "NULL", "''"])
def test_an_unknown_queue_is_refused_with_the_known_ones(
    connection: psycopg.Connection, function: LiteralString, queue: LiteralString
) -> None:
    """A misspelt name must not leave the intended queue running."""
    diagnostic = refusal(connection, f"SELECT orchestrator.{function}({queue})")

    assert ("OR005", "The queues are default.") == (diagnostic.sqlstate, diagnostic.message_hint)


def test_a_queue_that_only_tasks_or_types_name_is_known(connection: psycopg.Connection) -> None:
    """It gets its row when its state is set."""
    insert(connection, type="t", queue="by-task")
    connection.execute("INSERT INTO orchestrator.types (name, queue) VALUES ('t', 'by-type')")

    for queue in ("by-task", "by-type"):
        assert "paused" == one(connection, "SELECT orchestrator.pause_queue(%s)", [queue])


def test_every_view_loads_and_shows_the_rows(connection: psycopg.Connection) -> None:
    """One task in each status and a leader, as the views show them."""
    for status in (
        "scheduled",
        "blocked",
        "pending",
        "claimed",
        "running",
        "completed",
        "cancelled",
        "dead_letter",
    ):
        put(connection, status)
    connection.execute(
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, is_leader, leader_until, term)"
        " VALUES (%s, 'host', 7, '0', '{default}', 2, true, clock_timestamp() + interval '10 s', 3)",
        [WORKER],
    )
    seen = {
        "queue_summary": "SELECT pending, scheduled, blocked, claimed, running, dead_letters, state,"
        " oldest_ready_age > '59 min' FROM orchestrator.queue_summary",
        "dead_letters": "SELECT error_class, attempt, losses FROM orchestrator.dead_letters",
        "running_tasks": "SELECT host, pid, count(*) FROM orchestrator.running_tasks GROUP BY 1, 2",
        "live_workers": "SELECT holds, is_leader FROM orchestrator.live_workers",
        "leader": "SELECT pid, term FROM orchestrator.leader",
    }

    rows = {view: connection.execute(query.encode()).fetchall() for view, query in seen.items()}

    assert {
        "queue_summary": [(1, 1, 1, 1, 1, 1, "active", True)],
        "dead_letters": [("ValueError", 4, 1)],
        "running_tasks": [("host", 7, 2)],
        "live_workers": [(2, True)],
        "leader": [(7, 3)],
    } == rows


def test_the_history_of_a_task_is_in_order(connection: psycopg.Connection) -> None:
    """Creation, a failed attempt, the end, and manual changes."""
    task_id = put(
        connection,
        "dead_letter",
        created_at="2026-01-01 UTC",
        started_at="2026-01-03 UTC",
        finished_at="2026-01-04 UTC",
    )
    connection.execute(
        "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, finished_at)"
        " VALUES (%s, 1, 'failed', 'default', 'mail', '2026-01-02 UTC')",
        [task_id],
    )
    connection.execute(
        "INSERT INTO orchestrator.audit (action, task_id, at) VALUES ('priority', %s, '2026-01-02 12:00 UTC')",
        [task_id],
    )

    events = connection.execute(
        "SELECT event FROM orchestrator.task_history WHERE task_id = %s ORDER BY at", [task_id]
    ).fetchall()

    assert ["created", "attempt failed", "priority", "started", "dead_letter"] == [
        event for (event,) in events
    ]


def test_a_cancel_is_listed_once_in_the_history(connection: psycopg.Connection) -> None:
    """A manual cancel as the action, with role and reason; a handler's cancel, or one without its audit row, as the
    end of the task."""
    manually, by_handler = put(connection, "running"), put(connection, "cancelled")
    events = (
        "SELECT event, detail FROM orchestrator.task_history WHERE task_id = %s AND event LIKE 'cancel%%'"
    )

    connection.execute("SELECT orchestrator.cancel(%s, 'not wanted')", [manually])

    assert [("cancel", "not wanted: running to cancelled")] == connection.execute(
        events, [manually]
    ).fetchall()
    assert ["cancelled"] == [event for event, _ in connection.execute(events, [by_handler])]
    connection.execute("DELETE FROM orchestrator.audit")
    assert ["cancelled"] == [event for event, _ in connection.execute(events, [manually])]


def test_extreme_rows_load_in_psycopg_and_sqlalchemy(
    connection: psycopg.Connection, database_url: str
) -> None:
    """The earliest and the latest time, strict priority, no aging, no timeout and a long one, every column filled."""
    for run_at in ("1970-01-01 UTC", "8999-12-31 23:59:59.999999 UTC"):
        for aging in ("0", "1000 years"):
            connection.execute("UPDATE orchestrator.queues SET aging = %s", [aging])
            insert(connection, type="t", run_at=run_at, priority=0, timeout=timedelta(0), tags=["a", ""])
    put(
        connection,
        "dead_letter",
        timeout=timedelta(days=36_000),
        metadata=Jsonb([1]),
        payload=Jsonb({"a": 10**400}),
    )

    by_psycopg = connection.execute("SELECT * FROM orchestrator.tasks ORDER BY id").fetchall()
    by_sqlalchemy = create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(connect.conninfo(database_url)),
        poolclass=NullPool,
    )
    with by_sqlalchemy.connect() as session:
        rows = session.execute(select(tables.tasks).order_by(tables.tasks.c.id)).all()

    assert 5 == len(by_psycopg)
    assert by_psycopg == [tuple(row) for row in rows]
