"""How many statements a worker sends: per task under load, and per second when idle."""

import time
from collections.abc import Iterator

from orchestrator.bench import backlog
from orchestrator.bench.environment import Environment
from orchestrator.bench.proxy_process import LEADERS, ProxyFailed, ProxyProcess, growth_of
from orchestrator.bench.result import Goal, Result, Skipped
from orchestrator.bench.rounds import Round
from orchestrator.bench.workers import Workers

# By concurrency; statements per task.
GOALS = {100: Goal(of="ours", most=0.05), 10: Goal(of="ours", most=0.3)}
# A worker that has just started still runs its self-test.
START_SECONDS = 2.0


def under_load(environment: Environment) -> Iterator[Result | Skipped]:
    """Count all statements of the worker while it works off a backlog, its heartbeats and duties included."""
    for concurrency, goal in GOALS.items():
        line = f"statements, {concurrency} at once"
        try:
            with ProxyProcess(environment) as between:
                yield counted(environment, between, line, concurrency, goal)
        except ProxyFailed as error:
            yield Skipped(line, str(error))


def counted(
    environment: Environment, between: ProxyProcess, line: str, concurrency: int, goal: Goal
) -> Result:
    tasks = environment.sizes.work_off
    environment.say(line)
    backlog.pause(environment.connection)
    with Workers(environment, info=between.info, concurrency=concurrency) as workers:
        backlog.clear(environment.connection)
        backlog.fill(environment.connection, "bench.nothing", tasks)
        before = between.counts()
        done = backlog.work_off(environment, workers, tasks)
        after = between.counts()
    backlog.clear(environment.connection)
    statements, trips = growth_of("statements", before, after), growth_of("round_trips", before, after)
    details = {f"of them {name.removeprefix('orchestrator ')}": n / tasks
               for name, n in sorted(statements.items()) if n >= 0.01 * sum(statements.values())}  # fmt: skip
    return Result(
        line=line, unit="1/task", ours=(Round(sum(statements.values()) / tasks, done.spent),), goals=(goal,),
        tasks=tasks, details={"round trips": sum(trips.values()) / tasks, **details},
    )  # fmt: skip


def idle(environment: Environment) -> Iterator[Result | Skipped]:
    """Count while there is no task. The statements on the leader's connections have a count of their own."""
    line, seconds = "idle worker", environment.sizes.idle_seconds
    environment.say(f"{line}: {seconds:.0f} s")
    try:
        with ProxyProcess(environment) as between:
            backlog.clear(environment.connection)
            backlog.resume(environment.connection)
            with Workers(environment, info=between.info) as workers:
                time.sleep(min(START_SECONDS, seconds))
                before, meters, began = (
                    between.counts(),
                    environment.meter.read(workers.pids),
                    time.monotonic(),
                )
                time.sleep(seconds)
                lasted = time.monotonic() - began
                spent, counts = (
                    environment.meter.since(meters, workers.pids),
                    growth_of("statements", before, between.counts()),
                )
    except ProxyFailed as error:
        yield Skipped(line, str(error))
        return
    leading = sum(counts.get(name, 0) for name in LEADERS)
    details = {"leader's 1/s": leading / lasted, "all 1/s": sum(counts.values()) / lasted}
    if spent.client_seconds is not None:
        details["% of a core"] = 100 * spent.client_seconds / lasted
    yield Result(
        line=line, unit="1/s", ours=(Round((sum(counts.values()) - leading) / lasted),), details=details,
        goals=(Goal(of="ours", most=0.5), Goal(of="all 1/s", most=1.0), Goal(of="% of a core", most=0.5)),
    )  # fmt: skip
