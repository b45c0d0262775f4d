"""What a worker holds: memory, after few tasks and after many, and connections."""

from collections.abc import Iterator

from orchestrator.bench import backlog, sections
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import resident_megabytes
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round

SQL = sections.of(__file__, "memory.sql")
PARTS = 10


def held(ground: Ground) -> Iterator[Result | Skipped]:
    """Look after the first tenth of the tasks, and after the last."""
    line, connection = "memory and connections", ground.connection
    part = max(1, ground.sizes.memory // PARTS)
    backlog.shut(connection)
    sizes, connections = list[float | None](), 0
    with Crew(ground) as crew:
        for turn in range(PARTS):
            ground.say(f"{line}: {(turn + 1) * part:,} tasks")
            backlog.clear(connection)
            backlog.fill(connection, "bench.nothing", part)
            backlog.drain(ground, crew, part)
            sizes.append(resident_megabytes(crew.pids))
            connections = max(connections, *connection.execute(SQL["connections"]).fetchone() or [0])
    backlog.clear(connection)
    first, last = sizes[0], sizes[-1]
    if first is None or last is None:
        yield Skipped(line, "this system has no /proc to look into")
        return
    yield Result(
        line=line, unit="MB", ours=(Round(last),),
        details={f"MB more than after {part:,}": last - first, "connections": connections},
        goals=(Goal(of="ours", most=100.0), Goal(of="connections", most=5.0)),
    )  # fmt: skip
