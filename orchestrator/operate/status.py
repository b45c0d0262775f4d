"""The status of the whole installation: queues, workers, the leader, and what an operator should act on.

It must be cheap when the database is in trouble, because operators ask for it then: a few short statements, and none
reads the tasks if there are many (orchestrator.queue_counts).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from orchestrator.operate import find
from orchestrator.operate.attention import Concern, concerns
from orchestrator.operate.queues import Queue, queues, with_rates
from orchestrator.operate.unknown_types import unknown_types
from orchestrator.operate.workers import Worker, workers
from orchestrator.postgres import statement
from orchestrator.schema import compatibility

LEADER = statement.load(__file__, "leader.sql")


@dataclass(frozen=True, slots=True)
class Leader:
    """The worker that leads."""

    id: UUID
    host: str
    pid: int
    term: int
    leader_until: datetime
    started_at: datetime
    beat_age: timedelta


@dataclass(frozen=True, slots=True)
class Status:
    """The content of one screen. `counted_at`: the time of the oldest counts; None: nothing is counted yet."""

    at: datetime
    counted_at: datetime | None
    queues: list[Queue]
    workers: list[Worker]
    leader: Leader | None
    attention: list[Concern]


def status(connection: psycopg.Connection[Any], *, exact: bool = False) -> Status:
    """Read the whole status; `exact` counts, however long it takes."""
    at = find.now(connection)
    every_queue = with_rates(connection, queues(connection, exact=exact))
    live, first = workers(connection), leader(connection)
    counted = min((each.as_of for each in every_queue if each.as_of is not None), default=None)
    found = concerns(
        every_queue,
        live,
        at=at,
        counted_at=counted,
        led=first is not None,
        copied_from=compatibility.origins(connection),
        unknown_types=unknown_types(connection),
    )
    return Status(at, counted, every_queue, live, first, found)


def leader(connection: psycopg.Connection[Any]) -> Leader | None:
    """Return the leader."""
    with connection.cursor(row_factory=class_row(Leader)) as cursor:
        return cursor.execute(LEADER).fetchone()
