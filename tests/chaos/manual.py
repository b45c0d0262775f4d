"""Manual changes: plain SQL at random moments, with the rights of an operator, over connections of their own.

A change may be refused, and may lose its connection. Any other error is a violation, and is recorded.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, LiteralString

import psycopg

from tests.chaos.fleet import as_role

# Only while no queue is draining.
ENQUEUED = """
SELECT orchestrator.enqueue(%s, jsonb_build_object('token', %s::text))
WHERE NOT EXISTS (SELECT FROM orchestrator.queues WHERE state = 'draining')
"""
OPERATORS = 4
# The errors that an operator must expect: a refusal of the schema, a conflict with another session, a lost connection.
EXPECTED = ("OR", "23505", "40001", "40P01", "55P03", "57014", "57P", "08", "53300")

# A task of the last few thousand, in any status.
SOME = "(SELECT id FROM orchestrator.tasks WHERE id >= %(from)s ORDER BY id LIMIT 1)"
SOME_WAITING = (
    "(SELECT id FROM orchestrator.tasks WHERE status IN ('pending', 'scheduled') ORDER BY random() LIMIT 1)"
)
SOME_HELD = (
    "(SELECT id FROM orchestrator.tasks WHERE status IN ('claimed', 'running') ORDER BY random() LIMIT 1)"
)

NAMES = {":some": SOME, ":waiting": SOME_WAITING, ":held": SOME_HELD}
CHANGES: dict[str, tuple[str, ...]] = {
    "operator requeues": (
        "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = :some",
        "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = :held",
        "SELECT orchestrator.requeue(:some)",
    ),
    "operator cancels": (
        "SELECT orchestrator.cancel(:waiting)",
        "SELECT orchestrator.cancel(:held)",
        "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = :some",
    ),
    "operator deletes": (
        "DELETE FROM orchestrator.tasks WHERE id = :some",
        "DELETE FROM orchestrator.tasks WHERE id = :held",
    ),
    "operator sets priority": ("UPDATE orchestrator.tasks SET priority = 90 WHERE id = :waiting",),
    "operator delays": (
        "UPDATE orchestrator.tasks SET run_at = now() + interval '1 second' WHERE id = :waiting",
    ),
    "operator changes in bulk": (
        "UPDATE orchestrator.tasks SET priority = 100 - priority WHERE status = 'pending'",
        "UPDATE orchestrator.tasks SET status = 'pending'"
        " WHERE status = 'completed' AND id BETWEEN %(from)s AND %(from)s + 20",
        "UPDATE orchestrator.tasks SET status = 'cancelled'"
        " WHERE status IN ('pending', 'scheduled') AND id BETWEEN %(from)s AND %(from)s + 20",
        "DELETE FROM orchestrator.tasks WHERE id BETWEEN %(from)s AND %(from)s + 5",
    ),
    "operator requeues dead letters": (
        "SELECT orchestrator.requeue_where(status => 'dead_letter', at_most => 20)",
    ),
}
LOCK: LiteralString = (
    "UPDATE orchestrator.tasks SET priority = priority WHERE status IN ('claimed', 'running', 'pending')"
)

Report = Callable[[str, str, str], None]


class Operators:
    """A few threads for manual changes, each with a session of its own. `report` gets the change, its parameter, and
    how it ended."""

    def __init__(self, url: str, report: Report) -> None:
        self._url = as_role(url, "chaos_operator")
        self._report = report
        self._own = threading.local()
        self._connections: list[psycopg.Connection[Any]] = []
        self._pool = ThreadPoolExecutor(OPERATORS, thread_name_prefix="operator")

    def close(self) -> None:
        """Wait for the changes in progress."""
        self._pool.shutdown()
        for connection in self._connections:
            connection.close()

    def do(self, kind: str, how: float, newest: int) -> None:
        """Do one of these changes to one of the newest tasks."""
        statements = CHANGES[kind]
        statement = statements[int(how * 1000) % len(statements)]
        for name, meaning in NAMES.items():
            statement = statement.replace(name, meaning)
        first = max(1, newest - int(how * 3000))
        self.ask(
            kind, lambda connection: connection.execute(statement.encode(), {"from": first}), f"from {first}"
        )

    def lock(self, kind: str, seconds: float) -> None:
        """Hold locks on rows in use for this time, then roll back."""

        def hold(connection: psycopg.Connection) -> None:
            with connection.transaction(force_rollback=True):
                connection.execute(LOCK)
                time.sleep(seconds)

        self.ask(kind, hold, f"{seconds:.1f} s")

    def look(self, kind: str, seconds: float) -> None:
        """Hold a snapshot for this time."""

        def hold(connection: psycopg.Connection) -> None:
            with connection.transaction():
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                connection.execute("SELECT count(*) FROM orchestrator.tasks_live")
                time.sleep(seconds)

        self.ask(kind, hold, f"{seconds:.1f} s")

    def ask(self, kind: str, work: Callable[[psycopg.Connection], object], target: str = "") -> None:
        """Call this in a free thread."""
        self._pool.submit(self._do, kind, work, target)

    def _do(self, kind: str, work: Callable[[psycopg.Connection], object], target: str) -> None:
        try:
            work(self._connection())
        except psycopg.Error as error:
            # Without an SQLSTATE, the connection is what failed.
            state = error.sqlstate or "08000"
            verdict = "refused" if state.startswith(EXPECTED) else "UNEXPECTED"
            self._report(kind, target, f"{verdict}: {state} {error}"[:200])
        else:
            self._report(kind, target, "done")

    def _connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._own, "connection", None)
        if connection is None or connection.closed or connection.broken:
            if connection is not None:
                self._connections.remove(connection)
                connection.close()
            connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=3, application_name="chaos operator",
                options="-c statement_timeout=5000",
            )  # fmt: skip
            self._own.connection = connection
            self._connections.append(connection)
        return connection
