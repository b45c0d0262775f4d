"""How fast producers enqueue, beside plain INSERTs and COPY."""

import os
import time
from collections.abc import Callable, Iterator

from orchestrator.bench import backlog, floors
from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.tasks import app, nothing
from orchestrator.execute import declare


def one_by_one(ground: Ground) -> Iterator[Result]:
    """Enqueue one by one, each committed on its own, on a connection at hand."""
    connection, tasks = ground.connection, ground.sizes.enqueues
    sender = nothing.using(connection)

    def ours() -> None:
        for _ in range(tasks):
            sender.enqueue()

    def floor() -> None:
        floors.insert(connection, ["{}"] * tasks)

    yield compared(ground, "enqueue, one by one", tasks, ours, floor, "INSERT, no trigger", Goal(least=0.8))


def many(ground: Ground) -> Iterator[Result]:
    """Enqueue a set in one call."""
    connection, tasks = ground.connection, ground.sizes.many

    def ours() -> None:
        nothing.using(connection).enqueue_many({} for _ in range(tasks))

    def floor() -> None:
        floors.copy(connection, ("{}" for _ in range(tasks)))

    goals = (Goal(least=0.4), Goal(of="ours", least=200_000.0))
    yield compared(ground, f"enqueue_many, {tasks:,}", tasks, ours, floor, "COPY, no trigger", *goals)


def compared(
    ground: Ground, line: str, tasks: int, ours: Callable[[], None], floor: Callable[[], None], floor_is: str,
    *goals: Goal,
) -> Result:  # fmt: skip
    """Do the one and the other by turns, with nobody working the tasks off."""
    declare(ground.connection, app.registry)
    rates, floor_rates, spent, floor_spent = list[float](), list[float](), list[Spent](), list[Spent]()
    for turn in range(ground.sizes.rounds):
        ground.say(f"{line}: round {turn + 1} of {ground.sizes.rounds}")
        backlog.clear(ground.connection)
        floors.clear(ground.connection)
        for work, into, costs in ((ours, rates, spent), (floor, floor_rates, floor_spent)):
            before, began = ground.meter.read([os.getpid()]), time.perf_counter()
            work()
            into.append(tasks / (time.perf_counter() - began))
            costs.append(ground.meter.since(before, [os.getpid()]))
    backlog.clear(ground.connection)
    return Result(
        line=line, unit="tasks/s", ours=tuple(rates), floor=tuple(floor_rates), floor_is=floor_is, goals=goals,
        tasks=tasks, spent=tuple(spent), floor_spent=tuple(floor_spent),
    )  # fmt: skip
