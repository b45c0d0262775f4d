"""Tasks before and after a station, compared as whole rows, so that the test sees every change."""

from typing import Any

import psycopg
from psycopg.rows import dict_row

Row = dict[str, Any]


def row(connection: psycopg.Connection, task_id: int) -> Row:
    """Return all of a task but its position, which follows from the rest."""
    with connection.cursor(row_factory=dict_row) as cursor:
        found = cursor.execute("SELECT * FROM orchestrator.tasks WHERE id = %s", [task_id]).fetchall()
    (columns,) = found
    del columns["position"]
    return columns


def changes(before: Row, after: Row) -> Row:
    """Return the changed columns, with their present values."""
    return {name: value for name, value in after.items() if before[name] != value}


def attempts(connection: psycopg.Connection, task_id: int) -> list[Row]:
    """Return the recorded attempts of a task, the oldest first."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT attempt, outcome, queue, type, error, lease, worker_id, started_at, finished_at"
            " FROM orchestrator.attempts WHERE task_id = %s ORDER BY id",
            [task_id],
        )
        return cursor.fetchall()
