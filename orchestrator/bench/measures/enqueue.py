"""The rate at which one producer enqueues, compared with plain INSERTs and COPY. No worker runs the tasks."""

from collections.abc import Callable, Iterator

from orchestrator.app import Orchestrator
from orchestrator.bench import backlog, floors
from orchestrator.bench.environment import Environment
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns, timed
from orchestrator.bench.tasks import app, nothing
from orchestrator.execute import declare


def one_by_one(environment: Environment) -> Iterator[Result]:
    """Enqueue one by one, each in its own transaction: on an open connection, and on one of the application's pool."""
    connection, tasks = environment.connection, environment.sizes.enqueues
    sender = nothing.using(connection)

    def ours() -> None:
        for _ in range(tasks):
            sender.enqueue()

    def floor() -> None:
        floors.insert(connection, ["{}"] * tasks)

    def pooled() -> None:
        for _ in range(tasks):
            own.enqueue("bench.nothing", {})

    floor_is = "INSERT, no trigger"
    yield compared(environment, "enqueue, one by one", tasks, ours, floor, floor_is, Goal(least=0.8))
    own = Orchestrator(environment.info)
    try:
        yield compared(environment, "enqueue, from the pool", tasks, pooled, floor, floor_is)
    finally:
        own.close()


def many(environment: Environment) -> Iterator[Result]:
    """Enqueue many tasks in one call: on an open connection, and on one of the application's pool."""
    connection, tasks = environment.connection, environment.sizes.many
    own = Orchestrator(environment.info)
    declared = own.task(name=nothing.name)(nothing.__wrapped__)

    def ours() -> None:
        nothing.using(connection).enqueue_many({} for _ in range(tasks))

    def pooled() -> None:
        declared.enqueue_many({} for _ in range(tasks))

    def floor() -> None:
        floors.copy(connection, ("{}" for _ in range(tasks)))

    line, goal, floor_is = f"enqueue_many, {tasks:,}", Goal(least=0.4), "COPY, no trigger"
    yield compared(environment, line, tasks, ours, floor, floor_is, goal)
    try:
        yield compared(environment, f"{line}, pool", tasks, pooled, floor, floor_is, goal)
    finally:
        own.close()


def compared(
    environment: Environment, line: str, tasks: int, ours: Callable[[], None], floor: Callable[[], None], floor_is: str,
    *goals: Goal,
) -> Result:  # fmt: skip
    """Do both by turns, each into an empty table."""
    declare(environment.connection, app.registry)

    def empty_and(work: Callable[[], None]) -> Round:
        backlog.clear(environment.connection)
        floors.clear(environment.connection)
        return timed(environment, tasks, work)

    own, least = by_turns(environment, line, lambda: empty_and(ours), lambda: empty_and(floor))
    backlog.clear(environment.connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=floor_is, tasks=tasks, goals=goals
    )
