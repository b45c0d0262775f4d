"""Explain why a task is not running: one sentence, and the command that helps.

The answer comes from the database, `SELECT orchestrator.explain(42)`, so psql, the command line and a web page give the
same one.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator.operate.state import translated
from orchestrator.postgres import statement

EXPLAIN = statement.load(__file__, "explain.sql")

ABSENT = frozenset({"deleted", "never_existed", "forgotten", "absent"})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one task is not running. `command` helps: SQL, or a command line; None: no action is needed, or none
    helps."""

    task_id: int
    reason: str
    says: str
    command: str | None

    @property
    def is_absent(self) -> bool:
        """Whether the task does not exist."""
        return self.reason in ABSENT


def explain(connection: psycopg.Connection[Any], task_id: int) -> Explanation:
    """Explain one task; the id of a task that does not exist has an explanation too."""
    with translated(task_id), connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(EXPLAIN, {"id": task_id}).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: the function returns one row
    return Explanation(task_id, *row)
