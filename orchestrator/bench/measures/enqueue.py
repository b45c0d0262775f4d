"""How fast one producer enqueues, beside plain INSERTs and COPY, with nobody working the tasks off."""

from collections.abc import Callable, Iterator

from orchestrator.app import Orchestrator
from orchestrator.bench import backlog, floors
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns, timed
from orchestrator.bench.tasks import app, nothing
from orchestrator.execute import declare


def one_by_one(ground: Ground) -> Iterator[Result]:
    """Enqueue one by one, each committed on its own: on a connection at hand, and on one of the application's pool."""
    connection, tasks = ground.connection, ground.sizes.enqueues
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
    yield compared(ground, "enqueue, one by one", tasks, ours, floor, floor_is, Goal(least=0.8))
    own = Orchestrator(ground.info)
    try:
        yield compared(ground, "enqueue, from the pool", tasks, pooled, floor, floor_is)
    finally:
        own.close()


def many(ground: Ground) -> Iterator[Result]:
    """Enqueue a set in one call."""
    connection, tasks = ground.connection, ground.sizes.many

    def ours() -> None:
        nothing.using(connection).enqueue_many({} for _ in range(tasks))

    def floor() -> None:
        floors.copy(connection, ("{}" for _ in range(tasks)))

    yield compared(
        ground, f"enqueue_many, {tasks:,}", tasks, ours, floor, "COPY, no trigger", Goal(least=0.4)
    )


def compared(
    ground: Ground, line: str, tasks: int, ours: Callable[[], None], floor: Callable[[], None], floor_is: str,
    *goals: Goal,
) -> Result:  # fmt: skip
    """Do the one and the other by turns, each into an empty table."""
    declare(ground.connection, app.registry)

    def empty_and(work: Callable[[], None]) -> Round:
        backlog.clear(ground.connection)
        floors.clear(ground.connection)
        return timed(ground, tasks, work)

    own, least = by_turns(ground, line, lambda: empty_and(ours), lambda: empty_and(floor))
    backlog.clear(ground.connection)
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=floor_is, tasks=tasks, goals=goals
    )
