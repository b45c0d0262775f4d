"""Tasks that wait behind a gate: made at once by a set-based INSERT of complete rows, worked off when it opens.

The gate is the pause of their queues. So a worker has started, has imported everything and rests when the first of them
becomes its own, and two workers begin together.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.bench.rounds import Round
from orchestrator.bench.workers import Workers
from orchestrator.postgres import statement

SQL = statement.sections(__file__, "backlog.sql")
DEFAULT = ("default",)
LOOK_EVERY_SECONDS = 0.01
# Slower than this is no measurement.
SLOWEST_PER_SECOND = 100.0
# What a gate, a start and a stop may take on top.
PATIENCE_SECONDS = 30.0


class TooSlow(NotMeasured):
    """A backlog was not worked off in time; the workers may have stopped claiming."""


def clear(connection: psycopg.Connection[Any]) -> None:
    """Take all tasks away."""
    connection.execute(SQL["clear"])


def shut(connection: psycopg.Connection[Any], queues: Sequence[str] = DEFAULT) -> None:
    """Shut the gate: from the next claim on nothing leaves these queues."""
    connection.execute(SQL["shut"], {"queues": list(queues)})


def let_go(connection: psycopg.Connection[Any], queues: Sequence[str] = DEFAULT) -> None:
    """Open the gate of all these queues at once."""
    connection.execute(SQL["let_go"], {"queues": list(queues)})


def fill(connection: psycopg.Connection[Any], kind: str, tasks: int, **options: Any) -> None:
    """Put tasks into queues, by turns, and the priorities by turns; in today's past, or so many seconds ahead."""
    given = {"queues": list(DEFAULT), "priorities": [50], "payload": "{}", "ahead": 0.0, **options}
    connection.execute(SQL["fill"], {"type": kind, "tasks": tasks, **given})


def fill_finished(connection: psycopg.Connection[Any], kind: str, tasks: int) -> None:
    """Put finished tasks among those of today."""
    connection.execute(SQL["fill_finished"], {"type": kind, "tasks": tasks})


def settle(connection: psycopg.Connection[Any]) -> None:
    """Do the maintenance after the filling now, so that it does not run during a measure."""
    connection.execute(SQL["settle"])


def settle_all(connection: psycopg.Connection[Any]) -> None:
    """The same, with the finished ones."""
    connection.execute(SQL["settle_all"])


def work_off(
    environment: Environment, workers: Workers, tasks: int, queues: Sequence[str] = DEFAULT
) -> Round:
    """Let the workers rest, open the gate, and shut it when so many tasks are finished, the first in order; return how
    many a second, from the first claim to the last finish by the clock of the database."""
    connection, meter = environment.connection, environment.meter
    settle(connection)
    workers.settle()
    first, last, position = row(connection, "bounds", {"queues": list(queues), "tasks": tasks})
    before = meter.read(workers.pids)
    let_go(connection, queues)
    wait_until_gone(connection, workers, {"id": last, "position": position, "queues": list(queues)}, tasks)
    spent = meter.since(before, workers.pids)
    shut(connection, queues)
    finished, seconds = row(connection, "window", {"first": first, "queues": list(queues)})
    return Round(finished / seconds if seconds else 0.0, spent)


def wait_until_gone(
    connection: psycopg.Connection[Any], workers: Workers, last: Mapping[str, Any], tasks: int
) -> None:
    """Return when the last task, and all before it, are finished."""
    deadline = time.monotonic() + PATIENCE_SECONDS + tasks / SLOWEST_PER_SECOND
    # One row by its key for as long as it is there, and only then a look at all.
    while row(connection, "is_there", last)[0] or row(connection, "is_before", last)[0]:
        workers.check()
        if time.monotonic() > deadline:
            raise TooSlow
        time.sleep(LOOK_EVERY_SECONDS)


def wait_until_running(connection: psycopg.Connection[Any], workers: Workers, tasks: int, queue: str) -> None:
    """Return when so many tasks of a queue are in workers' hands."""
    wait(connection, workers, "held", {"queue": queue}, tasks)


def wait_until_empty(
    connection: psycopg.Connection[Any], workers: Workers, queues: Sequence[str] = DEFAULT
) -> None:
    """Return when nothing of these queues is ready or in workers' hands."""
    wait(connection, workers, "left", {"queues": list(queues)}, 0)


def wait(
    connection: psycopg.Connection[Any], workers: Workers, name: str, given: Mapping[str, Any], for_value: int
) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while row(connection, name, given)[0] != for_value:
        workers.check()
        if time.monotonic() > deadline:
            raise TooSlow
        time.sleep(LOOK_EVERY_SECONDS)


def row(connection: psycopg.Connection[Any], name: str, given: Mapping[str, Any]) -> tuple[Any, ...]:
    found = connection.execute(SQL[name], given).fetchone()
    if found is None:
        raise AssertionError(f"{name} has one row")
    return tuple(found)
