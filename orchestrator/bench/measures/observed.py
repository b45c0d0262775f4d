"""What it costs to be watched: the same drain by a worker that counts for statistics and serves metrics, and by one
that does neither.

Two workers, each with a queue of its own, drain by turns. Rates tell little where a worker shares the cores with its
server: the CPU time that it takes for a task is in the details.
"""

from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result, cost
from orchestrator.bench.rounds import Round, Rounds, by_turns

WATCHED, ALONE = ("default",), ("alone",)
# Of the one that is watched; statistics are on by default, and so are lines of level info.
WORDS: tuple[str, ...] = ("--metrics-port", "0")
UNWATCHED = {"ORCHESTRATOR_STATISTICS_SECONDS": "0"}
GOAL = Goal(least=0.95)


def observed(ground: Ground) -> Iterator[Result]:
    """Drain with and without."""
    connection, tasks, line = ground.connection, ground.sizes.drain, "drain, observed"

    def drain(crew: Crew, queues: tuple[str, ...]) -> Round:
        backlog.clear(connection)
        backlog.fill(connection, "bench.nothing", tasks, queues=list(queues))
        return backlog.drain(ground, crew, tasks, queues)

    backlog.shut(connection, [*WATCHED, *ALONE])
    watched = Crew(ground, queues=WATCHED, words=WORDS)
    alone = Crew(ground, queues=ALONE, settings=UNWATCHED)
    with watched, alone:
        own, least = by_turns(ground, line, lambda: drain(watched, WATCHED), lambda: drain(alone, ALONE))
    backlog.clear(connection)
    times = {"worker µs": microseconds(own, tasks), "without µs": microseconds(least, tasks)}
    yield Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is="ours without", tasks=tasks, goals=(GOAL,),
        details={name: value for name, value in times.items() if value is not None},
    )  # fmt: skip


def microseconds(rounds: Rounds, tasks: int) -> float | None:
    """Return the CPU time that the worker took for a task."""
    seconds = cost(rounds, tasks).client_seconds
    return None if seconds is None else seconds * 100
