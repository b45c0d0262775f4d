"""How fast workers work off a backlog, beside a plain loop that claims and finishes."""

import os
from collections.abc import Iterator

from orchestrator.bench import backlog, floors
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent
from orchestrator.bench.result import Goal, Result

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
    ours, floor, spent, floor_spent = list[float](), list[float](), list[Spent](), list[Spent]()
    connection = ground.connection
    backlog.shut(connection)
    with Crew(ground, size=size) as crew:
        for turn in range(ground.sizes.rounds):
            ground.say(f"{line}: round {turn + 1} of {ground.sizes.rounds}")
            backlog.clear(connection)
            backlog.fill(connection, kind, tasks, payload=payload)
            backlog.settle(connection)
            crew.settle()
            done = backlog.drain(ground, crew, tasks)
            ours.append(done.rate)
            spent.append(done.spent)
            floors.fill(connection, tasks, payload)
            before = ground.meter.read([os.getpid()])
            floor.append(floors.drain(connection))
            floor_spent.append(ground.meter.since(before, [os.getpid()]))
    backlog.clear(connection)
    return Result(
        line=line, unit="tasks/s", ours=tuple(ours), floor=tuple(floor), floor_is=FLOOR_IS, goals=goals,
        tasks=tasks, spent=tuple(spent), floor_spent=tuple(floor_spent),
    )  # fmt: skip
