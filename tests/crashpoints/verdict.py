"""What must hold at the end, for each expected task.

tests/invariants checks the moves; this module checks the executions, in SQL. TX: a handler that writes in its own
transaction has left one entry, under the lease that completed it; another handler has left none.
"""

from collections.abc import Iterator, Sequence
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from tests.invariants.moves import Judge, Move, from_history

RULES: dict[str, LiteralString] = {
    "I1 it exists once, and is completed": """
        SELECT e.id, array_agg(t.status) FROM unnest(%(ids)s::bigint[]) AS e (id)
        LEFT JOIN orchestrator.tasks AS t ON t.id = e.id
        GROUP BY e.id HAVING array_agg(t.status) <> '{completed}'""",
    "I6 a lease is executed once": """
        SELECT task_id, lease, count(*) FROM points.executions
        WHERE task_id = ANY (%(ids)s) GROUP BY task_id, lease HAVING count(*) > 1""",
    "I6 another execution has a cause": """
        SELECT e.task_id, e.attempt, e.lease FROM points.executions AS e
        WHERE e.task_id = ANY (%(ids)s)
            AND NOT EXISTS (SELECT FROM orchestrator.tasks_done AS t WHERE t.id = e.task_id AND t.lease = e.lease)
            AND NOT EXISTS (SELECT FROM orchestrator.attempts AS a WHERE a.task_id = e.task_id AND a.lease = e.lease)
            AND NOT EXISTS (
                SELECT FROM watch.history AS m
                WHERE m.task_id = e.task_id AND m.old ->> 'lease' = e.lease::text AND m.new ->> 'lease' IS NULL
                    AND m.new #>> '{error,class}' = 'WorkerLost'
            )""",
    "I6 what was completed was executed": """
        SELECT t.id, t.lease FROM orchestrator.tasks_done AS t
        WHERE t.id = ANY (%(ids)s) AND t.status = 'completed'
            AND NOT EXISTS (SELECT FROM points.executions AS e WHERE e.task_id = t.id AND e.lease = t.lease)""",
    "TX one entry, of the lease that completed": """
        SELECT t.id, t.lease, array_agg(l.lease) FROM orchestrator.tasks_done AS t
        LEFT JOIN points.ledger AS l ON l.task_id = t.id
        WHERE t.id = ANY (%(ids)s)
        GROUP BY t.id, t.lease, t.type
        HAVING array_agg(l.lease) IS DISTINCT FROM
            CASE WHEN t.type LIKE 'point.own%%' THEN ARRAY[t.lease] ELSE ARRAY[NULL::bigint] END""",
    "I7 no worker holds a task": """
        SELECT id, status, worker_id FROM orchestrator.tasks_live
        WHERE id = ANY (%(ids)s) AND (lease IS NOT NULL OR worker_id IS NOT NULL)""",
}


def violations(connection: psycopg.Connection[Any], ids: Sequence[int]) -> list[str]:
    """Return every violation, as text."""
    asked = [
        f"{rule}: {row}"
        for rule, query in RULES.items()
        for row in connection.execute(query, {"ids": list(ids)}).fetchall()
    ]
    judge = Judge()
    return asked + [fault for move in history(connection, ids) for fault in judge.faults(move)]


def history(connection: psycopg.Connection[Any], ids: Sequence[int]) -> Iterator[Move]:
    """Return all moves of these tasks, in order."""
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("SELECT * FROM watch.history WHERE task_id = ANY (%s) ORDER BY n", [list(ids)])
        return from_history(cursor.fetchall())


def timeline(connection: psycopg.Connection[Any], ids: Sequence[int]) -> str:
    """Return the events of these tasks, in order."""
    begun = connection.execute(
        "SELECT * FROM points.executions WHERE task_id = ANY (%s) ORDER BY n", [list(ids)]
    )
    return "\n".join(map(str, [*history(connection, ids), "executions:", *begun.fetchall()]))
