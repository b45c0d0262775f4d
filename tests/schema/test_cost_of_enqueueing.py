"""The cost of an enqueue for the server, counted and not timed: calls of functions, and sequential scans."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator import Orchestrator
from tests.schema.rows import one

SET = [{"type": "mail", "payload": {"user_id": n}} for n in range(1_000)]
CALLS = "SELECT funcname, calls FROM pg_stat_user_functions WHERE schemaname = 'orchestrator' AND calls > 0"
# With what an idle producer's plans were made: nothing. And a day later.
HISTORY = """
    INSERT INTO orchestrator.tasks_live (id, type, queue, run_at, aging_us, timeout, priority, max_attempts)
    SELECT nextval('orchestrator.tasks_id_seq'),
        'mail', 'default', now(), 0, '1 s', 50, 4 FROM generate_series(1, 20000);
    INSERT INTO orchestrator.tasks (
        id, type, queue, run_at, aging_us, timeout, priority, max_attempts, status, finished_at
    )
    SELECT nextval('orchestrator.tasks_id_seq'),
        'mail', 'default', now(), 0, '1 s', 50, 4, 'completed', now() FROM generate_series(1, 20000);
    INSERT INTO orchestrator.idempotency_keys (type, key, task_id, expires_at)
    SELECT 'mail', 'old ' || n, n, now() + interval '1 day' FROM generate_series(1, 20000) AS n
    ON CONFLICT DO NOTHING;
"""
READ_FROM_END_TO_END = """
    SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables
    WHERE relname LIKE 'tasks%' OR relname = 'idempotency_keys'
"""
FLUSH = "SELECT pg_stat_force_next_flush()"


@pytest.fixture
def counted(connection: psycopg.Connection, database_url: str) -> Iterator[psycopg.Connection]:
    """A producer whose calls are counted, with a declared type."""
    connection.execute("INSERT INTO orchestrator.types (name) VALUES ('mail')")
    with psycopg.connect(database_url, autocommit=True) as own:
        own.execute("SET track_functions = 'all'")
        yield own


def calls(counted: psycopg.Connection, connection: psycopg.Connection) -> dict[str, int]:
    counted.execute(FLUSH)
    counted.execute("SELECT")
    return dict(connection.execute(CALLS).fetchall())


def test_a_usual_task_calls_nothing_else(counted: psycopg.Connection, connection: psycopg.Connection) -> None:
    """Neither the trigger nor another function: each would cost some microseconds."""
    for _ in range(10):
        counted.execute("SELECT orchestrator.enqueue('mail', '{\"user_id\": 1}', priority => 75)")

    assert {"enqueue": 10} == calls(counted, connection)


def test_a_bare_insert_calls_its_trigger_alone(
    counted: psycopg.Connection, connection: psycopg.Connection
) -> None:
    """One call per row, and none per statement."""
    for _ in range(10):
        counted.execute(
            "INSERT INTO orchestrator.tasks (type, payload) VALUES ('mail', '{}'), ('mail', '{}')"
        )

    assert {"fill_new_task": 20} == calls(counted, connection)


def test_a_usual_set_makes_no_call_per_item(
    counted: psycopg.Connection, connection: psycopg.Connection
) -> None:
    """With all options, too; only a key needs a call per item."""
    counted.execute("SELECT orchestrator.enqueue_many(%s)", [Jsonb(SET)])
    full = {
        "priority": 1,
        "delay": "1 s",
        "timeout": "1 s",
        "max_attempts": 1,
        "tags": ["a"],
        "queue": "default",
    }
    counted.execute("SELECT orchestrator.enqueue_many(%s)", [Jsonb([item | full for item in SET])])
    keyed = [item | {"key": str(n)} for n, item in enumerate(SET[:50])]
    counted.execute("SELECT orchestrator.enqueue_many(%s)", [Jsonb(keyed)])

    assert {"enqueue_many": 3, "ring": 3, "take_key": 50} == calls(counted, connection)


def test_a_set_from_python_is_three_statements(
    counted: psycopg.Connection, connection: psycopg.Connection, database_url: str
) -> None:
    """2,500 items, a thousand each; their common options are looked up once per statement."""
    app = Orchestrator(database_url)
    mail: Any = app.task(name="mail")(lambda user_id: None)

    mail.using(counted).enqueue_many({"user_id": n} for n in range(2_500))
    mail.using(counted).enqueue(user_id=1)

    found = calls(counted, connection)
    assert {"enqueue_alike": 3, "enqueue": 1, "ring": 3, "warn_undeclared": 3} == found
    assert 2_501 == one(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_plans_made_on_empty_tables_read_no_full_ones(
    counted: psycopg.Connection, connection: psycopg.Connection
) -> None:
    """A producer that was idle since the tables were empty, without an ANALYZE since then."""

    def produce() -> None:
        for n in range(12):
            key = str(counted.execute("SELECT random()").fetchone())
            counted.execute("SELECT orchestrator.enqueue('mail')")
            counted.execute("SELECT orchestrator.enqueue('mail', key => %s)", [key])
            counted.execute("SELECT orchestrator.enqueue('mail', key => %s)", [f"old {n}"])
            counted.execute(
                "SELECT orchestrator.enqueue_many(%s)", [Jsonb([{"type": "mail", "key": f"set {key}"}])]
            )
            counted.execute("SELECT orchestrator.enqueue_alike('[{}]', '{\"type\": \"mail\"}')")
            counted.execute(
                "INSERT INTO orchestrator.tasks (type, idempotency_key) VALUES ('mail', %s)", [f"{key}!"]
            )

    def read() -> int:
        counted.execute(FLUSH)
        counted.execute("SELECT")
        return int(one(connection, READ_FROM_END_TO_END))

    connection.execute("SELECT orchestrator.enqueue('mail', key => 'one')")
    connection.execute("ANALYZE orchestrator.tasks_live, orchestrator.idempotency_keys")
    produce()
    connection.execute(HISTORY)
    before = read()

    produce()

    assert before == read()
