"""A worker's memory, after few tasks and after many, and its connections."""

from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.environment import Environment
from orchestrator.bench.meter import resident_megabytes
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round
from orchestrator.bench.workers import Workers
from orchestrator.postgres import statement

CONNECTIONS = statement.load(__file__, "memory.sql")
PARTS = 10


def held(environment: Environment) -> Iterator[Result | Skipped]:
    """Measure after the first tenth of the tasks, and after the last."""
    line, connection = "memory and connections", environment.connection
    part = max(1, environment.sizes.memory // PARTS)
    backlog.pause(connection)
    sizes, connections = list[float | None](), 0
    with Workers(environment) as workers:
        for turn in range(PARTS):
            environment.say(f"{line}: {(turn + 1) * part:,} tasks")
            backlog.clear(connection)
            backlog.fill(connection, "bench.nothing", part)
            backlog.work_off(environment, workers, part)
            sizes.append(resident_megabytes(workers.pids))
            connections = max(connections, *connection.execute(CONNECTIONS).fetchone() or [0])
    backlog.clear(connection)
    first, last = sizes[0], sizes[-1]
    if first is None or last is None:
        yield Skipped(line, "this system has no /proc")
        return
    yield Result(
        line=line, unit="MB", ours=(Round(last),),
        details={f"MB more than after {part:,}": last - first, "connections": connections},
        goals=(Goal(of="ours", most=100.0), Goal(of="connections", most=5.0)),
    )  # fmt: skip
