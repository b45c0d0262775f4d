"""Rows as the stations leave them, and a refusal as a client sees it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

from orchestrator.task.status import FINISHED, LEASED, Status

WORKER = UUID("00000000-0000-4000-8000-000000000001")
FUTURE = datetime(2999, 1, 1, tzinfo=UTC)


def put(connection: psycopg.Connection, status: str = "pending", **columns: object) -> int:
    """Insert a task in any state, complete as its worker would have left it. Return its id."""
    now = datetime.now(UTC)
    row: dict[str, object] = {
        "type": "mail", "queue": "default", "status": status, "priority": 50, "max_attempts": 4,
        "timeout": timedelta(minutes=5), "aging_us": 0, "run_at": now - timedelta(hours=1),
    }  # fmt: skip
    if status == Status.SCHEDULED:
        row |= {"run_at": now + timedelta(hours=1)}
    if status in LEASED:
        row |= {"lease": 77, "worker_id": WORKER, "claimed_at": now, "attempt": 1}
    if status == Status.RUNNING:
        row |= {"started_at": now, "progress": Jsonb(0.5)}
    if status in FINISHED:
        row |= {"lease": 77, "worker_id": WORKER, "claimed_at": now, "started_at": now, "finished_at": now}
        row |= {"attempt": 4, "losses": 1, "result": Jsonb(1), "error": Jsonb({"class": "ValueError"})}
    if "id" not in columns:
        row["id"] = one(connection, "SELECT nextval('orchestrator.tasks_id_seq')")
    return insert(connection, **row | columns)


def insert(connection: psycopg.Connection, **columns: object) -> int:
    """Do a bare INSERT of these columns. Return the id."""
    statement = sql.SQL("INSERT INTO orchestrator.tasks ({}) VALUES ({}) RETURNING id").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(map(sql.Placeholder, columns))
    )
    row = connection.execute(statement, columns).fetchone()
    assert row is not None
    return int(row[0])


def read(connection: psycopg.Connection, task_id: int, *columns: LiteralString) -> Any:
    """Return one column of a task, or several as a tuple."""
    statement = sql.SQL("SELECT {} FROM orchestrator.tasks WHERE id = %s").format(
        sql.SQL(", ").join(sql.SQL(column) for column in columns)
    )
    row = connection.execute(statement, [task_id]).fetchone()
    assert row is not None, f"there is no task {task_id}"
    return row[0] if len(columns) == 1 else row


def one(
    connection: psycopg.Connection,
    statement: LiteralString,
    params: Sequence[object] | Mapping[str, object] | None = None,
) -> Any:
    """Return the single value of a statement."""
    row = connection.execute(statement, params).fetchone()
    assert row is not None
    return row[0]


def refusal(
    connection: psycopg.Connection,
    statement: LiteralString,
    params: Sequence[object] | Mapping[str, object] | None = None,
) -> psycopg.errors.Diagnostic:
    """Run a statement that must be refused, and return the server's message. A refusal never shows the row."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement, params)
    diagnostic = caught.value.diag
    assert "Failing row" not in (diagnostic.message_detail or "")
    return diagnostic


def sleeping_worker(connection: psycopg.Connection, *queues: str, seconds: float = 60) -> UUID:
    """Add the row of an idle worker that listens."""
    worker_id = uuid4()
    connection.execute(
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, idle_until)"
        " VALUES (%s, 'host', 1, '0', %s, 1, clock_timestamp() + make_interval(secs => %s))",
        [worker_id, list(queues), seconds],
    )
    return worker_id


def rings(connection: psycopg.Connection) -> list[str]:
    """Return the queues whose idle workers were notified since the last call; needs a LISTEN before."""
    return sorted(note.payload for note in connection.notifies(timeout=0.1))


@contextmanager
def names_unchecked(connection: psycopg.Connection) -> Iterator[None]:
    """Accept any name of a type or a queue in the block, as before the checks existed: such rows may still exist."""
    checks = connection.execute(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid, false) FROM pg_constraint"
        " WHERE contype = 'c' AND connamespace = 'orchestrator'::regnamespace"
        " AND conname IN ('queues_name_check', 'types_name_check', 'types_queue_check')"
    ).fetchall()
    assert 3 == len(checks)
    for table, name, _ in checks:
        connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(sql.SQL(table), sql.Identifier(name))
        )
    # No trigger fires.
    connection.execute("SET session_replication_role = replica")
    yield
    connection.execute("RESET session_replication_role")
    for table, name, check in checks:
        connection.execute(
            sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {} NOT VALID").format(
                sql.SQL(table), sql.Identifier(name), sql.SQL(check)
            )
        )
