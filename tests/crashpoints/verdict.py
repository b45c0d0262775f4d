"""What must hold when everything is over, for each task that was expected; read off the tables in SQL.

I1  it is there once, and completed
I3  no lease was given twice, and none while another held
I4  the completion was written under the lease that was claimed last
I5  it was completed once
I6  every execution but the last has a cause on record: a failure, a timeout, a lost worker
TX  a handler that writes in its own transaction has left one entry, under the lease that completed it; another none
I7  nobody holds anything any more
"""

from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

RULES: dict[str, LiteralString] = {
    "I1 it is there once, and completed": """
        SELECT e.id, array_agg(t.status) FROM unnest(%(ids)s::bigint[]) AS e (id)
        LEFT JOIN orchestrator.tasks AS t ON t.id = e.id
        GROUP BY e.id HAVING array_agg(t.status) <> '{completed}'""",
    "I3 a lease is given once": """
        SELECT task_id, new_lease, count(*) FROM points.moves
        WHERE task_id = ANY (%(ids)s) AND old_status = 'pending' AND new_status = 'claimed'
        GROUP BY task_id, new_lease HAVING count(*) > 1""",
    "I3 a lease is given where none holds": """
        SELECT task_id, old_lease, new_lease FROM points.moves
        WHERE task_id = ANY (%(ids)s) AND new_status IN ('claimed', 'running') AND old_lease <> new_lease""",
    "I4 the last lease completes": """
        SELECT d.task_id, d.new_lease FROM points.moves AS d
        WHERE d.task_id = ANY (%(ids)s) AND d.old_status IS NULL AND d.new_status = 'completed'
            AND d.new_lease IS DISTINCT FROM (
                SELECT c.new_lease FROM points.moves AS c
                WHERE c.task_id = d.task_id AND c.n < d.n AND c.new_status = 'claimed' ORDER BY c.n DESC LIMIT 1
            )""",
    "I5 it is completed once": """
        SELECT task_id, count(*) FROM points.moves
        WHERE task_id = ANY (%(ids)s) AND old_status IS NULL AND new_status = 'completed'
        GROUP BY task_id HAVING count(*) > 1""",
    "I6 a lease is executed once": """
        SELECT task_id, lease, count(*) FROM points.executions
        WHERE task_id = ANY (%(ids)s) GROUP BY task_id, lease HAVING count(*) > 1""",
    "I6 another execution has a cause": """
        SELECT e.task_id, e.attempt, e.lease FROM points.executions AS e
        WHERE e.task_id = ANY (%(ids)s)
            AND NOT EXISTS (SELECT FROM orchestrator.tasks_done AS t WHERE t.id = e.task_id AND t.lease = e.lease)
            AND NOT EXISTS (SELECT FROM orchestrator.attempts AS a WHERE a.task_id = e.task_id AND a.lease = e.lease)
            AND NOT EXISTS (
                SELECT FROM points.moves AS m
                WHERE m.task_id = e.task_id AND m.old_lease = e.lease AND m.new_lease IS NULL
                    AND m.new_error ->> 'class' = 'WorkerLost'
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
    "I7 nobody holds anything": """
        SELECT id, status, worker_id FROM orchestrator.tasks_live
        WHERE id = ANY (%(ids)s) AND (lease IS NOT NULL OR worker_id IS NOT NULL)""",
}


def violations(connection: psycopg.Connection[Any], ids: Sequence[int]) -> list[str]:
    """Return everything that must not be, in words."""
    return [
        f"{rule}: {row}"
        for rule, query in RULES.items()
        for row in connection.execute(query, {"ids": list(ids)}).fetchall()
    ]


def timeline(connection: psycopg.Connection[Any], ids: Sequence[int]) -> str:
    """Tell what happened to these tasks, in order."""
    rows = connection.execute(
        "SELECT n, task_id, old_status, new_status, old_lease, new_lease, new_error ->> 'class'"
        " FROM points.moves WHERE task_id = ANY (%s) ORDER BY n",
        [list(ids)],
    ).fetchall()
    begun = connection.execute(
        "SELECT * FROM points.executions WHERE task_id = ANY (%s) ORDER BY n", [list(ids)]
    )
    return "\n".join(map(str, [*rows, "executions:", *begun.fetchall()]))
