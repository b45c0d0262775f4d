"""The floors: the least work that any program must do on PostgreSQL, in the simplest code.

The floor has one table with the columns of a task and one index for the claim. It has no trigger, no generated column
and no partition. It sends few statements, each for hundreds of tasks, and nothing else runs beside it. Like our
workers, it claims each task durably under a lease, finishes it durably, and keeps it.

    work_off  one connection, one statement after the other: claim 500, finish 500 with an UPDATE
    insert    one INSERT after the other, each its own transaction
    copy      one COPY
    listen    LISTEN; at each notification claim one task and store the time (no wait for the disk, like ours)
"""

import secrets
import time
from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import psycopg

from orchestrator.postgres import connect, statement

SQL = statement.sections(__file__, "floors.sql")
BATCH_SIZE = 500
# psycopg prepares a statement after this number of executions. They run before the first one that counts.
PREPARED_AFTER = 6


def make(connection: psycopg.Connection[Any]) -> None:
    """Make the table."""
    connection.execute(SQL["table"])
    connection.execute(SQL["index"])


def clear(connection: psycopg.Connection[Any]) -> None:
    """Empty the table."""
    connection.execute(SQL["clear"])


def fill(connection: psycopg.Connection[Any], tasks: int, payload: str = "{}") -> None:
    """Empty the table and add ready tasks."""
    clear(connection)
    connection.execute(SQL["fill"], {"tasks": tasks, "payload": payload})
    connection.execute(SQL["vacuum"])


def work_off(connection: psycopg.Connection[Any]) -> float:
    """Claim and finish until no task is left. Return tasks per second, from the first claim to the last finish by the
    clock of the database, like our own rate."""
    worker_id = uuid4()
    while True:
        given = {"lease": secrets.randbits(63), "worker_id": worker_id, "batch_size": BATCH_SIZE}
        claimed = connection.execute(SQL["claim"], given).fetchall()
        if not claimed:
            break
        connection.execute(SQL["finish"], {"ids": [row[0] for row in claimed], "lease": given["lease"]})
    row = connection.execute(SQL["window"]).fetchone()
    return row[0] / row[1] if row and row[1] else 0.0


def insert(connection: psycopg.Connection[Any], payloads: Iterable[str]) -> None:
    """Insert one by one, each in a transaction of its own."""
    for payload in payloads:
        connection.execute(SQL["insert"], {"type": "nothing", "payload": payload})


def copy(connection: psycopg.Connection[Any], payloads: Iterable[str]) -> None:
    """Insert all with one COPY."""
    with connection.cursor() as cursor, cursor.copy(SQL["copy"]) as into:
        for payload in payloads:
            into.write_row(("default", "nothing", payload))


def call(connection: psycopg.Connection[Any]) -> int:
    """Insert one and notify in the same transaction; return the task's id."""
    row = connection.execute(SQL["call"], {"type": "nothing", "payload": "{}"}).fetchone()
    return int(row[0]) if row else 0


def stamps(connection: psycopg.Connection[Any]) -> dict[int, int]:
    """Return the time when the listener had claimed each task."""
    return dict(connection.execute(SQL["stamps"]).fetchall())


def listen(info: str, *, ready: Callable[[], None]) -> None:
    """Claim one task at each notification, and store the time. Runs in a process of its own until it is killed."""
    with connect.open_sync(info) as connection:
        connection.execute(SQL["no_disk_wait"])
        for _ in range(PREPARED_AFTER):
            claim_one(connection)
        connection.execute(SQL["listen"])
        ready()
        while True:
            # A list: inside the generator's loop the connection is locked.
            for _ in list(connection.notifies(stop_after=1)):
                claim_one(connection)


def claim_one(connection: psycopg.Connection[Any]) -> None:
    given = {"lease": secrets.randbits(63), "worker_id": uuid4(), "batch_size": 1}
    claimed = connection.execute(SQL["claim"], given).fetchall()
    at = time.monotonic_ns()
    if claimed:
        connection.execute(SQL["stamp"], {"id": claimed[0][0], "lease": given["lease"], "at": at})
