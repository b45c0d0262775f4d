"""Rows of workers, as workers register and leave them."""

from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg

REGISTER = """
INSERT INTO orchestrator.workers (
    id, host, pid, version, queues, types, capacity, state, is_leader, leader_until, term, beat_at
)
VALUES (
    %(id)s, %(host)s, 4711, %(version)s, %(queues)s, %(types)s, %(capacity)s, %(state)s, %(leads)s,
    CASE WHEN %(leads)s THEN orchestrator.clock() + interval '10 s' END, CASE WHEN %(leads)s THEN 1 END,
    orchestrator.clock() - make_interval(secs => %(silent)s)
)
"""


def hired(
    connection: psycopg.Connection,
    *queues: str,
    types: Sequence[str] | None = ("mail",),
    capacity: int = 1,
    state: str = "running",
    silent: float = 0,
    leads: bool = False,
    host: str = "app-1",
    version: str = "0",
) -> UUID:
    """Add the row of a worker whose last beat was `silent` seconds ago. Return its id."""
    worker_id = uuid4()
    connection.execute(
        REGISTER,
        {
            "id": worker_id, "host": host, "version": version, "queues": list(queues or ("default",)),
            "types": None if types is None else list(types), "capacity": capacity, "state": state,
            "leads": leads, "silent": silent,
        },
    )  # fmt: skip
    return worker_id


def darkened(connection: psycopg.Connection, worker_id: UUID) -> None:
    """Make a worker's beacon lost, as after a kill; for the queries the server has been up for long."""
    connection.execute(
        "CREATE OR REPLACE FUNCTION orchestrator.up_since() RETURNS timestamptz LANGUAGE sql STABLE"
        " AS $$ SELECT statement_timestamp() - interval '1 day' $$"
    )
    connection.execute("UPDATE orchestrator.workers SET beacon = 71 WHERE id = %s", [worker_id])
