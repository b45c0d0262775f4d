"""Show the workers, and end one: a drained worker finishes its tasks; a stopped worker's tasks go to others at once.

A worker is named by its id or the beginning of it, by its pid, by host:pid, or by its host, which names all workers on
that host.
"""

import difflib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row, scalar_row

from orchestrator.errors import OperationRefused
from orchestrator.postgres import statement

WORKERS = statement.load(__file__, "workers.sql", "list")
DRAIN = statement.load(__file__, "workers.sql", "drain")
STOP = statement.load(__file__, "workers.sql", "stop")

# A shorter beginning of an id is more likely a typing error.
PREFIX_LETTERS_MIN = 4


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker's row. `live`: its last beat is younger than its `dead_after`, and
    it holds its beacon."""

    id: UUID
    host: str
    pid: int
    version: str
    queues: list[str]
    state: str
    capacity: int
    busy: int
    holds: int
    started_at: datetime
    age: timedelta
    beat_age: timedelta
    dead_after: timedelta
    live: bool
    leads: bool
    term: int | None

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


def workers(
    connection: psycopg.Connection[Any], *, worker_id: UUID | None = None, everyone: bool = False
) -> list[Worker]:
    """Return the workers that have not ended, or with `everyone` all rows; with an id, only that worker."""
    with connection.cursor(row_factory=class_row(Worker)) as cursor:
        return cursor.execute(WORKERS, {"id": worker_id, "everyone": everyone}).fetchall()


def named(found: list[Worker], name: str) -> list[Worker]:
    """Return the workers that a name means: one, or all of a host. Refuse an unknown or ambiguous name."""
    on_host = [each for each in found if each.host == name]
    if on_host:
        return on_host
    meant = [each for each in found if answers(each, name)]
    if len(meant) > 1:
        several = ", ".join(f"{each.name} ({each.id})" for each in meant[:5])
        raise OperationRefused(f"{name!r} names {len(meant)} workers: {several}; say which by its id")
    if not meant:
        raise OperationRefused(f"there is no worker {name!r}; {advice(found, name)}")
    return meant


def answers(worker: Worker, name: str) -> bool:
    wanted = name.lower()
    return (
        (len(wanted) >= PREFIX_LETTERS_MIN and str(worker.id).startswith(wanted))
        or name == worker.name
        or name == str(worker.pid)
    )


def advice(found: list[Worker], name: str) -> str:
    if not found:
        return "none lives"
    names = [
        *{each.host for each in found},
        *(each.name for each in found),
        *(str(each.id) for each in found),
    ]
    close = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {close[0]}?" if close else "`orchestrator workers list` names them"


def drain(connection: psycopg.Connection[Any], worker: Worker, *, reason: str | None) -> bool:
    """Let the worker claim no more, finish its running tasks, and end; False: it was ending already."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return bool(cursor.execute(DRAIN, {"id": worker.id, "reason": reason}).fetchone())


def stop(connection: psycopg.Connection[Any], worker: Worker, *, reason: str | None) -> int:
    """The same, without its grace: its tasks go to others, with fresh attempts. Returns their number."""
    with connection.cursor(row_factory=scalar_row) as cursor:
        return int(cursor.execute(STOP, {"id": worker.id, "reason": reason}).fetchone() or 0)
