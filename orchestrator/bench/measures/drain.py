"""How fast workers work off a backlog, beside a plain loop that claims and finishes."""

import os
from collections.abc import Iterator
from dataclasses import replace

from orchestrator.bench import backlog, floors
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns, timed

FLOOR_IS = "claim 500, finish 500, one connection"


def one_process(ground: Ground) -> Iterator[Result]:
    """Drain with one worker process."""
    goal = Goal(least=1.0)
    yield drained(ground, "drain, one process", "bench.nothing", ground.sizes.drain, goal)


def two_processes(ground: Ground) -> Iterator[Result]:
    """Drain with two; the floor stays one connection."""
    tasks = 2 * ground.sizes.drain
    yield drained(ground, "drain, two processes", "bench.nothing", tasks, Goal(least=1.3), size=2)


def in_threads(ground: Ground) -> Iterator[Result]:
    """Drain handlers that are plain functions."""
    yield drained(ground, "drain, def in threads", "bench.in_thread", ground.sizes.drain, Goal(least=0.3))


def large(ground: Ground) -> Iterator[Result]:
    """Drain tasks that carry 10 kB which cannot be compressed."""
    # Hexadecimal has no repetitions for PostgreSQL's compression to find, which knows no shorter letters.
    payload = f'{{"text": "{os.urandom(5_000).hex()}"}}'
    yield drained(ground, "drain, 10 kB payloads", "bench.large", ground.sizes.large, payload=payload)


def drained(
    ground: Ground, line: str, kind: str, tasks: int, *goals: Goal, size: int = 1, payload: str = "{}"
) -> Result:
    """Drain in rounds, ours and the floor by turns, with the same workers throughout."""
    connection = ground.connection

    def ours() -> Round:
        backlog.clear(connection)
        backlog.fill(connection, kind, tasks, payload=payload)
        return backlog.drain(ground, crew, tasks)

    def floor() -> Round:
        floors.fill(connection, tasks, payload)
        # Its own clock counts for what it cost; its rate is told by the clock of the database, like ours.
        took = timed(ground, tasks, lambda: rates.append(floors.drain(connection)))
        return replace(took, figure=rates[-1])

    rates = list[float]()
    backlog.shut(connection)
    with Crew(ground, size=size) as crew:
        own, least = by_turns(ground, line, ours, floor)
    backlog.clear(connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=FLOOR_IS, tasks=tasks, goals=goals
    )
