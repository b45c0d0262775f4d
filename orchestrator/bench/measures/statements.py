"""How much a worker says: statements a task under load, statements a second when there is nothing to do."""

import time
from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.between import LEADERS, Between, NoWayThrough, said
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round

# Of a task at these concurrencies.
GOALS = {100: Goal(of="ours", most=0.05), 10: Goal(of="ours", most=0.3)}
# A worker that has just started still tests itself.
START_SECONDS = 2.0


def under_load(ground: Ground) -> Iterator[Result | Skipped]:
    """Count while a backlog is drained: everything that the worker says meanwhile, leading and beating included."""
    for concurrency, goal in GOALS.items():
        line = f"statements, {concurrency} at once"
        try:
            with Between(ground) as between:
                yield counted(ground, between, line, concurrency, goal)
        except NoWayThrough as error:
            yield Skipped(line, str(error))


def counted(ground: Ground, between: Between, line: str, concurrency: int, goal: Goal) -> Result:
    tasks = ground.sizes.drain
    ground.say(line)
    backlog.shut(ground.connection)
    with Crew(ground, info=between.info, concurrency=concurrency) as crew:
        backlog.clear(ground.connection)
        backlog.fill(ground.connection, "bench.nothing", tasks)
        before = between.counts()
        done = backlog.drain(ground, crew, tasks)
        after = between.counts()
    backlog.clear(ground.connection)
    statements, trips = said(before, after, "statements"), said(before, after, "round_trips")
    details = {f"of them {name.removeprefix('orchestrator ')}": n / tasks
               for name, n in sorted(statements.items()) if n >= 0.01 * sum(statements.values())}  # fmt: skip
    return Result(
        line=line, unit="1/task", ours=(Round(sum(statements.values()) / tasks, done.spent),), goals=(goal,),
        tasks=tasks, details={"round trips": sum(trips.values()) / tasks, **details},
    )  # fmt: skip


def idle(ground: Ground) -> Iterator[Result | Skipped]:
    """Count while there is nothing to do; what the connections of the leader say counts apart."""
    line, seconds = "idle worker", ground.sizes.idle_seconds
    ground.say(f"{line}: {seconds:.0f} s")
    try:
        with Between(ground) as between:
            backlog.clear(ground.connection)
            backlog.let_go(ground.connection)
            with Crew(ground, info=between.info) as crew:
                time.sleep(min(START_SECONDS, seconds))
                before, meters, began = between.counts(), ground.meter.read(crew.pids), time.monotonic()
                time.sleep(seconds)
                lasted = time.monotonic() - began
                spent, counts = (
                    ground.meter.since(meters, crew.pids),
                    said(before, between.counts(), "statements"),
                )
    except NoWayThrough as error:
        yield Skipped(line, str(error))
        return
    leading = sum(counts.get(name, 0) for name in LEADERS)
    details = {"leader's 1/s": leading / lasted}
    if spent.client_seconds is not None:
        details["% of a core"] = 100 * spent.client_seconds / lasted
    yield Result(
        line=line, unit="1/s", ours=(Round((sum(counts.values()) - leading) / lasted),), details=details,
        goals=(Goal(of="ours", most=0.5), Goal(of="leader's 1/s", most=2.0), Goal(of="% of a core", most=0.5)),
    )  # fmt: skip
