"""A backlog: tasks in paused queues, made by one INSERT of complete rows. Workers work it off when the queues resume.

The pause gives the workers time to start, import everything and fall idle before they claim the first task, and two
workers begin at the same time.
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
# The lowest rate at which a measure still makes sense.
SLOWEST_PER_SECOND = 100.0
# Added to the time of the tasks: for the resumption, the start and the stop.
PATIENCE_SECONDS = 30.0


class TooSlow(NotMeasured):
    """A backlog was not worked off in time; the workers may have stopped claiming."""


def clear(connection: psycopg.Connection[Any]) -> None:
    """Delete all tasks."""
    connection.execute(SQL["clear"])


def pause(connection: psycopg.Connection[Any], queues: Sequence[str] = DEFAULT) -> None:
    """Pause these queues: the next claim takes nothing from them."""
    connection.execute(SQL["pause"], {"queues": list(queues)})


def resume(connection: psycopg.Connection[Any], queues: Sequence[str] = DEFAULT) -> None:
    """Resume all these queues at once."""
    connection.execute(SQL["resume"], {"queues": list(queues)})


def fill(connection: psycopg.Connection[Any], kind: str, tasks: int, **options: Any) -> None:
    """Add tasks, spread evenly over the queues and the priorities. They are due now, or in `ahead` seconds."""
    given = {"queues": list(DEFAULT), "priorities": [50], "payload": "{}", "ahead": 0.0, **options}
    connection.execute(SQL["fill"], {"type": kind, "tasks": tasks, **given})


def fill_finished(connection: psycopg.Connection[Any], kind: str, tasks: int) -> None:
    """Add finished tasks to today's partition."""
    connection.execute(SQL["fill_finished"], {"type": kind, "tasks": tasks})


def vacuum(connection: psycopg.Connection[Any]) -> None:
    """Vacuum now, so that autovacuum does not run during a measure."""
    connection.execute(SQL["vacuum"])


def vacuum_all(connection: psycopg.Connection[Any]) -> None:
    """The same, with the finished tasks."""
    connection.execute(SQL["vacuum_all"])


def work_off(
    environment: Environment, workers: Workers, tasks: int, queues: Sequence[str] = DEFAULT
) -> Round:
    """Wait until the workers are idle, resume the queues, and pause them when the first `tasks` tasks in order are
    finished. Return the rate, from the first claim to the last finish by the clock of the database."""
    connection, meter = environment.connection, environment.meter
    vacuum(connection)
    workers.wait_until_idle()
    first, last, position = row(connection, "bounds", {"queues": list(queues), "tasks": tasks})
    before = meter.read(workers.pids)
    resume(connection, queues)
    wait_until_gone(connection, workers, {"id": last, "position": position, "queues": list(queues)}, tasks)
    spent = meter.since(before, workers.pids)
    pause(connection, queues)
    finished, seconds = row(connection, "window", {"first": first, "queues": list(queues)})
    return Round(finished / seconds if seconds else 0.0, spent)


def wait_until_gone(
    connection: psycopg.Connection[Any], workers: Workers, last: Mapping[str, Any], tasks: int
) -> None:
    """Return when the last task, and all before it, are finished."""
    deadline = time.monotonic() + PATIENCE_SECONDS + tasks / SLOWEST_PER_SECOND
    # The first query reads one row by its key. The second reads many rows, so it runs only when that row is gone.
    while row(connection, "is_there", last)[0] or row(connection, "is_before", last)[0]:
        workers.check()
        if time.monotonic() > deadline:
            raise TooSlow
        time.sleep(LOOK_EVERY_SECONDS)


def wait_until_running(connection: psycopg.Connection[Any], workers: Workers, tasks: int, queue: str) -> None:
    """Return when workers hold this number of the queue's tasks."""
    wait(connection, workers, "held", {"queue": queue}, tasks)


def wait_until_empty(
    connection: psycopg.Connection[Any], workers: Workers, queues: Sequence[str] = DEFAULT
) -> None:
    """Return when no task of these queues is ready or held by a worker."""
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
