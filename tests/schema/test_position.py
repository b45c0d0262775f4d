"""The place of a task in the order of execution: an ordinary column, which every way of writing a task keeps right.

How each way to enqueue writes it is compared in test_ways_to_enqueue.py.
"""

from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors, sql

from orchestrator import Orchestrator, Snooze
from orchestrator.schema import migrate
from tests.schema.catalog import everything
from tests.schema.rows import one, put, read
from tests.worker.running import statuses, until, working

# As the generated column of revision 0001 computed it.
ROWS: LiteralString = (
    "SELECT to_jsonb(t), t.tableoid::regclass::text FROM orchestrator.tasks AS t ORDER BY id"
)
MISPLACED: LiteralString = """
    SELECT count(*) FROM orchestrator.tasks
    WHERE position IS DISTINCT FROM
        (date_part('epoch', run_at AT TIME ZONE 'UTC') * 1000000)::bigint + aging_us * (100 - priority)
"""
INSERT = sql.SQL(
    "INSERT INTO orchestrator.{}"
    " (id, type, payload, queue, priority, max_attempts, timeout, run_at, aging_us, {})"
    " VALUES (nextval('orchestrator.tasks_id_seq'), 'old', '{{}}', 'default', 30, 4, '5 min', now(), 7000000, {})"
)


@pytest.fixture
def task_id(connection: psycopg.Connection) -> int:
    """A task of a queue that ages."""
    connection.execute("INSERT INTO orchestrator.queues (name, aging) VALUES ('ages', '1 minute')")
    return int(one(connection, "SELECT orchestrator.enqueue('mail', '{}', queue => 'ages')"))


@pytest.mark.parametrize(
    "change",
    [
        "priority = 80",
        "run_at = now() + interval '1 hour'",
        "run_at = now() - interval '1 hour', priority = 3",
        "status = 'pending', run_at = now() + interval '1 day'",
        "position = 0",
        "aging_us = 5",
    ],
)
def test_a_manual_change_moves_the_task_to_its_place(
    connection: psycopg.Connection, task_id: int, change: LiteralString
) -> None:
    """Nobody can put a task somewhere else."""
    connection.execute(
        sql.SQL("UPDATE orchestrator.tasks SET {} WHERE id = {}").format(sql.SQL(change), task_id)
    )

    assert 0 == one(connection, MISPLACED)


async def test_a_task_that_a_worker_puts_off_moves_to_its_new_place(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The worker's statement names no position."""

    @app.task(name="later")
    async def later() -> None:
        raise Snooze(3600)

    later.enqueue()
    async with working(app):
        await until(lambda: {"scheduled": 1} == statuses(connection), "it is put off")

    assert 0 == one(connection, MISPLACED)


@pytest.mark.parametrize("status", ["claimed", "running", "completed", "cancelled", "dead_letter"])
def test_a_requeue_that_names_only_the_status_places_the_task_too(
    connection: psycopg.Connection, status: str
) -> None:
    """The trigger gives it a new time, which the statement does not name."""
    task_id = put(connection, status)
    before = read(connection, task_id, "position")

    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [task_id])

    assert before < read(connection, task_id, "position")
    assert 0 == one(connection, MISPLACED)


@pytest.mark.parametrize(
    ("leaf", "columns", "values"),
    [
        ("tasks_live", "status", "'pending'"),
        ("tasks_done", "status, finished_at, lease", "'completed', now(), 1"),
        ("tasks_dead", "status, finished_at, lease", "'dead_letter', now(), 1"),
    ],
)
def test_a_complete_row_without_a_place_gets_it(
    connection: psycopg.Connection, leaf: LiteralString, columns: LiteralString, values: LiteralString
) -> None:
    """As a worker of the release before writes it, and a dump of the data of its tables."""
    connection.execute(INSERT.format(sql.Identifier(leaf), sql.SQL(columns), sql.SQL(values)))

    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.tasks")
    assert 0 == one(connection, MISPLACED)


@pytest.mark.parametrize("wrong", [{"priority": 300}, {"max_attempts": 0}])
def test_a_complete_row_has_sensible_numbers(connection: psycopg.Connection, wrong: dict[str, Any]) -> None:
    """Only the owner of the tables can write such a row."""
    with pytest.raises(errors.DatabaseError, match="the priority is") as refusal:
        put(connection, "pending", **wrong)

    assert "OR006" == refusal.value.sqlstate


def test_no_row_is_without_a_place(connection: psycopg.Connection) -> None:
    """No claim would find it."""
    connection.execute("ALTER TABLE orchestrator.tasks_live DISABLE TRIGGER ALL")

    with pytest.raises(errors.NotNullViolation, match="position"):
        connection.execute(
            INSERT.format(sql.Identifier("tasks_live"), sql.SQL("status"), sql.Literal("pending"))
        )


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_number_of_attempts_that_makes_no_sense_is_refused(
    connection: psycopg.Connection, task_id: int, attempts: int
) -> None:
    """With a sentence: what to do instead."""
    with pytest.raises(errors.DatabaseError, match=f"max_attempts is {attempts}; it must lie") as refusal:
        connection.execute(
            "UPDATE orchestrator.tasks SET max_attempts = %s WHERE id = %s", [attempts, task_id]
        )

    assert "OR006" == refusal.value.sqlstate


def test_the_tasks_of_revision_0001_keep_their_places(empty_database_url: str) -> None:
    """Every row stays as it was, and the schema becomes what a new database has."""
    migrate.move(empty_database_url, to="0001")
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for status in ("pending", "scheduled", "claimed", "running", "completed", "cancelled", "dead_letter"):
            put(connection, status, priority=20, aging_us=60_000_000)
        put(connection, "completed", finished_at="tomorrow")
        before = connection.execute(ROWS).fetchall()

        migrate.upgrade(empty_database_url)

        assert before == connection.execute(ROWS).fetchall()
        assert 0 == one(connection, MISPLACED)
        upgraded = everything(connection)
    migrate.downgrade(empty_database_url, to="base")
    migrate.upgrade(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        assert upgraded == everything(connection)
