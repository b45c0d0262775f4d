"""What it costs to be watched: the same drain by a worker that counts for statistics and serves metrics, and by one
that does neither.

Two workers, each with a queue of its own, drain by turns. Rates tell little where a worker shares the cores with its
server: the CPU time that it takes for a task is in the details.
"""

from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Cost, Goal, Result, cost
from orchestrator.bench.rounds import Round, by_turns

WATCHED, ALONE = ("default",), ("alone",)
# Of the one that is watched; statistics are on by default, and so are lines of level info.
WORDS: tuple[str, ...] = ("--metrics-port", "0")
UNWATCHED = {"ORCHESTRATOR_STATISTICS_SECONDS": "0"}
GOALS = (Goal(least=0.95), Goal(of="CPU ×", most=1.05))


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
    yield Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is="ours without", tasks=tasks, goals=GOALS,
        details=compared(cost(own, tasks), cost(least, tasks)),
    )  # fmt: skip


def compared(own: Cost, least: Cost) -> dict[str, float]:
    """Return what the worker takes for a task, in µs, and how much more it and the server take together."""
    found = dict[str, float]()
    if own.client_seconds is not None and least.client_seconds is not None:
        found = {"worker µs": own.client_seconds * 100, "without µs": least.client_seconds * 100}
        if own.server_seconds is not None and least.server_seconds is not None:
            ours, theirs = (
                own.client_seconds + own.server_seconds,
                least.client_seconds + least.server_seconds,
            )
            found["CPU ×"] = ours / theirs
    return found
