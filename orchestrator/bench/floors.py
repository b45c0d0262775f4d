"""The floors: the least that any program on PostgreSQL would have to do, written as plainly as it goes.

One table with the columns of a task and one index to claim by, no trigger, no generated column, no partition. A floor
uses the database as sparingly as it can (hundreds of tasks in a statement, nothing else beside it), and does what ours
has to do as well: each task is claimed durably under a lease, finished durably, and kept.

    drain     one connection, one statement after the other: claim 500, finish 500 with an UPDATE
    insert    one INSERT after the other, each its own transaction
    copy      one COPY
    listen    LISTEN; at each notification claim one (not waiting for the disk, as ours does not), and tell when
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
# psycopg prepares a statement that it has seen so often; before the first one counts.
PREPARED_AFTER = 6


def make(connection: psycopg.Connection[Any]) -> None:
    """Make the table."""
    connection.execute(SQL["table"])
    connection.execute(SQL["index"])


def clear(connection: psycopg.Connection[Any]) -> None:
    """Empty the table."""
    connection.execute(SQL["clear"])


def fill(connection: psycopg.Connection[Any], tasks: int, payload: str = "{}") -> None:
    """Put ready tasks into the empty table."""
    clear(connection)
    connection.execute(SQL["fill"], {"tasks": tasks, "payload": payload})
    connection.execute(SQL["settle"])


def work_off(connection: psycopg.Connection[Any]) -> float:
    """Claim and finish until nothing is left; return tasks a second, from the first claim to the last finish by the
    clock of the database, as ours is measured."""
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
    """Insert one by one, each committed on its own."""
    for payload in payloads:
        connection.execute(SQL["insert"], {"type": "nothing", "payload": payload})


def copy(connection: psycopg.Connection[Any], payloads: Iterable[str]) -> None:
    """Insert all at once."""
    with connection.cursor() as cursor, cursor.copy(SQL["copy"]) as into:
        for payload in payloads:
            into.write_row(("default", "nothing", payload))


def call(connection: psycopg.Connection[Any]) -> int:
    """Insert one and notify in the same transaction; return the task's id."""
    row = connection.execute(SQL["call"], {"type": "nothing", "payload": "{}"}).fetchone()
    return int(row[0]) if row else 0


def stamps(connection: psycopg.Connection[Any]) -> dict[int, int]:
    """Return when each task was claimed, as the listener saw it."""
    return dict(connection.execute(SQL["stamps"]).fetchall())


def listen(info: str, *, ready: Callable[[], None]) -> None:
    """Claim one at each notification, and store when it was ours: for a process of its own, until it is killed."""
    with connect.open_sync(info) as connection:
        connection.execute(SQL["hasty"])
        for _ in range(PREPARED_AFTER):
            claim_one(connection)
        connection.execute(SQL["listen"])
        ready()
        while True:
            # To its end: within its loop the connection would be locked.
            for _ in list(connection.notifies(stop_after=1)):
                claim_one(connection)


def claim_one(connection: psycopg.Connection[Any]) -> None:
    given = {"lease": secrets.randbits(63), "worker_id": uuid4(), "batch_size": 1}
    claimed = connection.execute(SQL["claim"], given).fetchall()
    at = time.monotonic_ns()
    if claimed:
        connection.execute(SQL["stamp"], {"id": claimed[0][0], "lease": given["lease"], "at": at})
