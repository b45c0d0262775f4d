"""The cost of monitoring: a worker with statistics and metrics, compared with a worker without them.

Each of the two workers has a queue of its own, and they work by turns. If a worker shares the cores with its server,
the rates say little. So the details show the worker's CPU time per task.
"""

from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.environment import Environment
from orchestrator.bench.result import Cost, Goal, Result, cost
from orchestrator.bench.rounds import Round, by_turns
from orchestrator.bench.workers import Workers

WATCHED, ALONE = ("default",), ("alone",)
# Options of the observed worker. Statistics and log lines of level info are on by default.
WORDS: tuple[str, ...] = ("--metrics-port", "0")
UNWATCHED = {"ORCHESTRATOR_STATISTICS_SECONDS": "0"}
GOALS = (Goal(least=0.95), Goal(of="CPU ×", most=1.05))


def observed(environment: Environment) -> Iterator[Result]:
    """Work off a backlog with and without monitoring."""
    connection, tasks, line = environment.connection, environment.sizes.work_off, "throughput, observed"

    def work_off(workers: Workers, queues: tuple[str, ...]) -> Round:
        backlog.clear(connection)
        backlog.fill(connection, "bench.nothing", tasks, queues=list(queues))
        return backlog.work_off(environment, workers, tasks, queues)

    backlog.pause(connection, [*WATCHED, *ALONE])
    watched = Workers(environment, queues=WATCHED, words=WORDS)
    alone = Workers(environment, queues=ALONE, settings=UNWATCHED)
    with watched, alone:
        own, least = by_turns(
            environment, line, lambda: work_off(watched, WATCHED), lambda: work_off(alone, ALONE)
        )
    backlog.clear(connection)
    yield Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is="ours without", tasks=tasks, goals=GOALS,
        details=compared(cost(own, tasks), cost(least, tasks)),
    )  # fmt: skip


def compared(own: Cost, least: Cost) -> dict[str, float]:
    """Return each worker's CPU time per task in µs, and the ratio of the CPU times of worker and server together."""
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
