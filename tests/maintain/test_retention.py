"""Retention: rows are deleted after their period, in batches; earlier rows are neither deleted nor read."""

from datetime import timedelta
from functools import partial
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from orchestrator import events
from orchestrator.maintain import KINDS, Kind, retention
from tests.clock import Clock
from tests.maintain.rounds import do, do_all, do_at_once, reads
from tests.schema.rows import insert, one, put
from tests.stations.worker import Mate

TABLES: dict[Kind, str] = {
    "dead_letters": "tasks_dead",
    "attempts": "attempts",
    "audit": "audit",
    "keys": "idempotency_keys",
    "workers": "workers",
    "statistics": "statistics",
}
DAYS: dict[Kind, int] = {
    "dead_letters": 30,
    "attempts": 30,
    "audit": 90,
    "keys": 1,
    "workers": 1,
    "statistics": 2,
}
"""How long each is kept where nobody has said anything; a key for as long as `grow` asks."""

# In: count, queue. Out: so many rows, made at this moment by the database's clock.
GROW: dict[Kind, LiteralString] = {
    "dead_letters": """
        INSERT INTO orchestrator.tasks_dead (
            id, type, queue, status, priority, max_attempts, timeout, aging_us, run_at, finished_at
        )
        SELECT nextval('orchestrator.tasks_id_seq'),
            'mail', %(queue)s, 'dead_letter', 50, 4, '5 min', 0, orchestrator.clock(), orchestrator.clock()
        FROM generate_series(1, %(count)s)""",
    "attempts": """
        INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type)
        SELECT n, 1, 'failed', %(queue)s, 'mail' FROM generate_series(1, %(count)s) AS n""",
    "audit": """
        INSERT INTO orchestrator.audit (action, queue)
        SELECT 'pause', %(queue)s FROM generate_series(1, %(count)s)""",
    "keys": """
        INSERT INTO orchestrator.idempotency_keys (type, key, task_id, expires_at)
        SELECT 'mail', gen_random_uuid()::text, n, orchestrator.clock() + interval '1 day'
        FROM generate_series(1, %(count)s) AS n WHERE %(queue)s <> ''""",
    "workers": """
        INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, state)
        SELECT gen_random_uuid(), 'host', 1, '0', ARRAY[%(queue)s], 1, (ARRAY['stopped', 'dead'])[1 + n %% 2]
        FROM generate_series(1, %(count)s) AS n""",
    "statistics": """
        INSERT INTO orchestrator.statistics (minute, queue, type)
        SELECT orchestrator.clock(), %(queue)s, gen_random_uuid()::text FROM generate_series(1, %(count)s)""",
}


def grow(connection: psycopg.Connection, kind: Kind, count: int = 1, queue: str = "mail") -> None:
    connection.execute(GROW[kind], {"count": count, "queue": queue})


def left(connection: psycopg.Connection, kind: Kind) -> int:
    count = sql.SQL("SELECT count(*) FROM orchestrator.{}").format(sql.Identifier(TABLES[kind]))
    row = connection.execute(count).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_deleted_after_their_period(
    connection: psycopg.Connection, clock: Clock, kind: Kind, heard: list[events.Event]
) -> None:
    """Not a moment before. A queue without a row has the default periods."""
    grow(connection, kind)
    clock.advance(days=DAYS[kind], seconds=-1)
    grow(connection, kind)

    assert not do(connection, partial(retention, kind=kind))
    assert (2, []) == (left(connection, kind), heard)

    clock.advance(seconds=2)
    assert not do(connection, partial(retention, kind=kind))
    assert (1, [events.RowsExpired(kind, 1)]) == (left(connection, kind), heard)


@pytest.mark.parametrize("kind", KINDS)
def test_a_round_is_bounded(connection: psycopg.Connection, clock: Clock, kind: Kind) -> None:
    """It deletes a batch and returns that there may be more, with rows of any queues."""
    for queue in ("a", "b", "c"):
        grow(connection, kind, 10, queue)
    clock.advance(days=DAYS[kind], seconds=1)
    grow(connection, kind, 5)
    duty = partial(retention, kind=kind, batch_size=12)

    seen = [(do(connection, duty), left(connection, kind)) for _ in range(3)]

    assert [(True, 23), (True, 11), (False, 5)] == seen


@pytest.mark.parametrize("kind", KINDS)
def test_two_leaders_at_once_are_one(
    connection: psycopg.Connection, database_url: str, clock: Clock, kind: Kind
) -> None:
    """Neither waits for the other, nor deletes a row before its time."""
    grow(connection, kind, 500)
    clock.advance(days=DAYS[kind], seconds=1)
    grow(connection, kind, 50)

    do_at_once(database_url, partial(retention, kind=kind, batch_size=20))
    do_all(connection, partial(retention, kind=kind))

    assert 50 == left(connection, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_locked_row_waits_for_the_next_round(
    connection: psycopg.Connection, database_url: str, clock: Clock, kind: Kind
) -> None:
    """The others are deleted."""
    grow(connection, kind, 3)
    clock.advance(days=DAYS[kind], seconds=1)
    with psycopg.connect(database_url) as operator:
        lock = sql.SQL("SELECT FROM orchestrator.{} LIMIT 1 FOR UPDATE").format(sql.Identifier(TABLES[kind]))
        operator.execute(lock)
        do(connection, partial(retention, kind=kind))
        assert 1 == left(connection, kind)

    do(connection, partial(retention, kind=kind))
    assert 0 == left(connection, kind)


@pytest.mark.parametrize("kind", ["dead_letters", "attempts"])
@pytest.mark.parametrize(
    ("finished_days", "dead_days", "expected"),
    [(1, 3, {"dead_letters": 3, "attempts": 3}), (9, 3, {"dead_letters": 3, "attempts": 9})],
)
def test_each_queue_has_its_own_period(
    connection: psycopg.Connection,
    clock: Clock,
    kind: Kind,
    finished_days: int,
    dead_days: int,
    expected: dict[Kind, int],
) -> None:
    """Attempts stay as long as their task may stay."""
    periods = [timedelta(days=finished_days), timedelta(days=dead_days)]
    connection.execute(
        "INSERT INTO orchestrator.queues (name, keep_finished, keep_dead) VALUES ('mail', %s, %s)", periods
    )
    grow(connection, kind, queue="mail")
    grow(connection, kind, queue="other")

    clock.advance(days=expected[kind], seconds=-1)
    do(connection, partial(retention, kind=kind))
    assert 2 == left(connection, kind)

    clock.advance(seconds=2)
    do(connection, partial(retention, kind=kind))
    assert 1 == left(connection, kind)


def test_the_periods_of_audit_and_workers_are_settings(connection: psycopg.Connection, clock: Clock) -> None:
    """One row for the whole installation."""
    connection.execute("UPDATE orchestrator.settings SET keep_audit = '1 h', keep_workers = '2 h'")
    grow(connection, "audit")
    grow(connection, "workers")

    clock.advance(hours=1, seconds=1)
    for kind in ("audit", "workers"):
        do(connection, partial(retention, kind=kind))
    assert [0, 1] == [left(connection, kind) for kind in ("audit", "workers")]

    clock.advance(hours=1)
    do(connection, partial(retention, kind="workers"))
    assert 0 == left(connection, "workers")


def test_hours_are_kept_for_as_long_as_statistics_are(connection: psycopg.Connection, clock: Clock) -> None:
    """Fourteen days, or the setting; minutes no longer than that, and two days at most."""
    tell = 'SELECT orchestrator.record_statistics(\'[{"queue": "q", "type": "t", "completed": 1}]\')'
    both = (
        "SELECT (SELECT count(*) FROM orchestrator.statistics), count(*) FROM orchestrator.statistics_by_hour"
    )
    seen = []
    for keep, days in (("14 days", 13), ("14 days", 2), ("6 hours", 0.2), ("6 hours", 0.1)):
        connection.execute("UPDATE orchestrator.settings SET keep_statistics = %s", [keep])
        connection.execute(tell)
        clock.advance(days=days)
        do(connection, partial(retention, kind="statistics"))
        seen.append(connection.execute(both).fetchone())

    assert [(0, 1), (0, 1), (1, 1), (1, 1)] == seen


PATHS: dict[Kind, list[str]] = {
    "dead_letters": ["tasks_dead_pkey", "tasks_dead_queue_idx"],
    "attempts": ["attempts_pkey", "attempts_queue_idx"],
    "audit": ["audit_at_idx", "audit_pkey"],
    "keys": ["idempotency_keys_expires_idx"],
    "statistics": ["statistics_pkey"],
}


@pytest.mark.parametrize("kind", PATHS)
@pytest.mark.parametrize("analyzed", [True, False])
def test_kept_rows_are_not_read(
    connection: psycopg.Connection, clock: Clock, kind: Kind, analyzed: bool
) -> None:
    """Ten thousand rows kept for years lie before what is due: they must not fill each round. Whatever the statistics
    say, and though the statement was planned before on empty tables."""
    connection.execute("INSERT INTO orchestrator.queues (name, keep_dead) VALUES ('archive', '10 years')")
    for _ in range(7):
        do(connection, partial(retention, kind=kind))
    if kind in ("dead_letters", "attempts"):
        grow(connection, kind, 10_000, "archive")
    clock.advance(days=1)
    grow(connection, kind, 100, "mail")
    clock.advance(days=DAYS[kind], seconds=1)
    grow(connection, kind, 10_000, "other")
    if analyzed:
        connection.execute("ANALYZE")

    whole, entries, indexes = reads(connection, partial(retention, kind=kind, batch_size=50), TABLES[kind])

    assert PATHS[kind] == indexes
    assert 0 == whole
    # Found, then deleted by key (keys by place), and a leap or two for each queue.
    assert 50 <= entries <= 150
    assert 1 == do_all(connection, partial(retention, kind=kind, batch_size=51))


def test_a_key_is_free_when_retention_has_deleted_its_task(
    connection: psycopg.Connection, clock: Clock
) -> None:
    """Even within its window: a second enqueue gets a new task, and not the id of a deleted one."""
    enqueue: LiteralString = "SELECT orchestrator.enqueue('mail', '{}', key => 'k', key_window => '10 years')"
    first = one(connection, enqueue)
    connection.execute("DELETE FROM ONLY orchestrator.tasks_live")
    put(connection, "dead_letter", id=first, idempotency_key="k", finished_at=clock.now)
    assert first == one(connection, enqueue)
    clock.advance(days=31)
    do(connection, partial(retention, kind="dead_letters"))

    second = one(connection, enqueue)

    assert first < second
    assert second == one(connection, enqueue)


def test_an_enqueue_that_takes_an_expired_key_keeps_it(
    connection: psycopg.Connection, database_url: str, clock: Clock
) -> None:
    """Its transaction is open while retention runs."""
    insert(connection, type="mail", idempotency_key="k")
    clock.advance(days=2)
    with psycopg.connect(database_url) as producer:
        second = one(producer, "SELECT orchestrator.enqueue('mail', '{}', key => 'k')")
        do(connection, partial(retention, kind="keys"))

    do(connection, partial(retention, kind="keys"))
    assert second == one(connection, "SELECT task_id FROM orchestrator.idempotency_keys")


LEADS = "UPDATE orchestrator.workers SET is_leader = true, term = 1, leader_until = orchestrator.clock() WHERE id = %s"


@pytest.mark.parametrize(
    ("state", "statement", "stays"),
    [
        ("stopped", None, False),
        ("dead", None, False),
        ("running", None, True),
        ("draining", None, True),
        ("dead", LEADS, True),
        ("dead", "UPDATE orchestrator.tasks_live SET status = 'claimed', lease = 1, worker_id = %s", True),
    ],
    ids=["stopped", "dead", "running", "draining", "leads", "holds a task"],
)
def test_a_worker_is_forgotten_when_nothing_depends_on_it(
    connection: psycopg.Connection,
    worker: Mate,
    clock: Clock,
    state: str,
    statement: LiteralString | None,
    stays: bool,
) -> None:
    """Stopped or dead, for a day. A worker that leads or holds tasks stays until other duties have handled it."""
    put(connection)
    connection.execute("UPDATE orchestrator.workers SET state = %s WHERE id = %s", [state, worker.id])
    if statement:
        connection.execute(statement, [worker.id])
    clock.advance(days=1, seconds=1)

    do(connection, partial(retention, kind="workers"))

    assert int(stays) == left(connection, "workers")


def test_held_tasks_are_found_by_an_index(connection: psycopg.Connection, clock: Clock) -> None:
    """The statement does not scan the table for each of them."""
    for _ in range(7):
        do(connection, partial(retention, kind="workers"))
    connection.execute("INSERT INTO orchestrator.tasks (type) SELECT 'mail' FROM generate_series(1, 2000)")
    grow(connection, "workers", 50)
    clock.advance(days=2)

    whole, entries, indexes = reads(connection, partial(retention, kind="workers"), "tasks_live")

    assert (0, 0, ["tasks_live_worker_idx"]) == (whole, entries, indexes)
    assert 0 == left(connection, "workers")
