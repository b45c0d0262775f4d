"""Tasks that wait behind a gate: made at once by a set-based INSERT of complete rows, worked off when it opens.

The gate is the pause of their queue. So a worker has started, has imported everything and rests when the first of them
becomes its own, and two workers begin together.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestrator.bench import sections
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent
from orchestrator.errors import OrchestratorError

SQL = sections.of(__file__, "backlog.sql")
QUEUE = "default"
LOOK_EVERY_SECONDS = 0.01
# Slower than this is no measurement; ten tasks a second leave a second a look.
SLOWEST_PER_SECOND = 10.0


class TooSlow(OrchestratorError):
    """A backlog was not worked off in time."""


@dataclass(frozen=True, slots=True)
class Drained:
    """How a backlog was worked off."""

    rate: float
    spent: Spent


def clear(connection: psycopg.Connection[Any]) -> None:
    """Take all tasks away, and shut the gate."""
    connection.execute(SQL["shut"], {"queue": QUEUE})
    connection.execute(SQL["clear"])


def open_gate(connection: psycopg.Connection[Any]) -> None:
    """Let the tasks go."""
    connection.execute(SQL["open"], {"queue": QUEUE})


def fill(connection: psycopg.Connection[Any], kind: str, tasks: int, **options: Any) -> None:
    """Put ready tasks behind the gate."""
    given = {"queue": QUEUE, "priorities": [50], "payload": "{}", "ahead": 0.0, **options}
    connection.execute(SQL["fill"], {"type": kind, "tasks": tasks, **given})


def settle(connection: psycopg.Connection[Any]) -> None:
    """Leave no chore of the filling to be done while somebody measures."""
    connection.execute(SQL["settle"])


def drain(ground: Ground, crew: Crew, tasks: int) -> Drained:
    """Open the gate, and return when so many tasks are finished: what it took from the first claim to the last finish,
    by the clock of the database."""
    connection, meter = ground.connection, ground.meter
    last = one(connection, "last", {"queue": QUEUE, "offset": tasks - 1})
    before = meter.read(crew.pids)
    open_gate(connection)
    wait_until_gone(connection, crew, last, tasks)
    spent = meter.since(before, crew.pids)
    connection.execute(SQL["shut"], {"queue": QUEUE})
    finished, seconds = row(connection, "window", {"queue": QUEUE})
    return Drained(finished / seconds if seconds else 0.0, spent)


def wait_until_gone(connection: psycopg.Connection[Any], crew: Crew, last: int, tasks: int) -> None:
    """Return when the last task, and all before it, are finished."""
    deadline = time.monotonic() + 30 + tasks / SLOWEST_PER_SECOND
    # One row by its key while it lasts, and only then a look at all.
    while one(connection, "is_there", {"id": last}) or one(
        connection, "is_before", {"id": last, "queue": QUEUE}
    ):
        crew.check()
        if time.monotonic() > deadline:
            raise TooSlow(f"{tasks:,} tasks were not finished in time; the workers' log may tell why")
        time.sleep(LOOK_EVERY_SECONDS)


def one(connection: psycopg.Connection[Any], name: str, given: Mapping[str, Any]) -> Any:
    return row(connection, name, given)[0]


def row(connection: psycopg.Connection[Any], name: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    found = connection.execute(SQL[name], given).fetchone()
    if found is None:
        raise AssertionError(f"{name} has one row")
    return tuple(found)
