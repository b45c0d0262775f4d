"""The rate at which workers work off a backlog, compared with a plain loop that claims and finishes."""

import os
from collections.abc import Iterator
from dataclasses import replace

from orchestrator.bench import backlog, floors
from orchestrator.bench.environment import Environment
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns, timed
from orchestrator.bench.workers import Workers

FLOOR_IS = "claim 500, finish 500, one connection"


def one_process(environment: Environment) -> Iterator[Result]:
    """Work with one worker process."""
    goal = Goal(least=1.0)
    yield worked_off(
        environment, "throughput, one process", "bench.nothing", environment.sizes.work_off, goal
    )


def two_processes(environment: Environment) -> Iterator[Result]:
    """Work with two. The floor still uses one connection."""
    tasks = 2 * environment.sizes.work_off
    yield worked_off(
        environment, "throughput, two processes", "bench.nothing", tasks, Goal(least=1.3), size=2
    )


def in_threads(environment: Environment) -> Iterator[Result]:
    """Run handlers that are plain functions."""
    yield worked_off(
        environment,
        "throughput, def in threads",
        "bench.in_thread",
        environment.sizes.work_off,
        Goal(least=0.3),
    )


def large(environment: Environment) -> Iterator[Result]:
    """Run tasks with 10 kB that do not compress."""
    # pglz and lz4 compress repetitions only, and random hexadecimal digits have none.
    payload = f'{{"text": "{os.urandom(5_000).hex()}"}}'
    yield worked_off(
        environment, "throughput, 10 kB payloads", "bench.large", environment.sizes.large, payload=payload
    )


def worked_off(
    environment: Environment,
    line: str,
    kind: str,
    tasks: int,
    *goals: Goal,
    size: int = 1,
    payload: str = "{}",
) -> Result:
    """Work in rounds, ours and the floor by turns, with the same workers in all rounds."""
    connection = environment.connection

    def ours() -> Round:
        backlog.clear(connection)
        backlog.fill(connection, kind, tasks, payload=payload)
        return backlog.work_off(environment, workers, tasks)

    def floor() -> Round:
        floors.fill(connection, tasks, payload)
        # The cost is measured with our own clock, the rate with the clock of the database, like ours.
        took = timed(environment, tasks, lambda: rates.append(floors.work_off(connection)))
        return replace(took, figure=rates[-1])

    rates = list[float]()
    backlog.pause(connection)
    with Workers(environment, size=size) as workers:
        own, least = by_turns(environment, line, ours, floor)
    backlog.clear(connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=FLOOR_IS, tasks=tasks, goals=goals
    )
