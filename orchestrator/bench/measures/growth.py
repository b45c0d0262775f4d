"""The throughput with many rows in the tables: ready, scheduled or finished tasks, or many queues.

The small case runs again before each large one, with the same worker. The worker connects through a proxy without
delay, which measures the cost of a claim: the time per task that the worker's connection for claims waits for answers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median

from orchestrator.bench import backlog
from orchestrator.bench.backlog import DEFAULT
from orchestrator.bench.environment import Environment
from orchestrator.bench.formats import short
from orchestrator.bench.proxy_process import CLAIMS, ProxyFailed, ProxyProcess, growth_of
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, Rounds
from orchestrator.bench.workers import Workers

GOALS = (Goal(least=0.9), Goal(of="claim ×", most=1.3))
A_YEAR = 365 * 86_400.0
KIND = "bench.nothing"
# Rows in one statement. The whole takes long, so the screen shows the progress between statements.
PART = 250_000


def grown(environment: Environment) -> Iterator[Result]:
    """Work off small and large cases by turns."""
    sizes, connection = environment.sizes, environment.connection
    cases = (
        ("ready", sizes.ready, partial(backlog.fill, connection, KIND)),
        ("scheduled", sizes.scheduled, partial(backlog.fill, connection, KIND, ahead=A_YEAR)),
        ("finished", sizes.finished, partial(backlog.fill_finished, connection, KIND)),
    )
    with watched(environment, DEFAULT) as work_off:
        for name, rows, add in cases:
            line = f"growth, {short(rows)} {name}"
            small = measured(environment, f"{line}: before", work_off)
            pile(environment, line, rows, add)
            yield compared(environment, line, small, measured(environment, line, work_off))
            backlog.clear(connection)
        line = f"growth, {sizes.queues} queues"
        small = measured(environment, f"{line}: before", work_off)
    with watched(environment, [f"queue-{n}" for n in range(sizes.queues)]) as work_off:
        yield compared(environment, line, small, measured(environment, line, work_off))
    backlog.clear(connection)


def pile(environment: Environment, line: str, rows: int, add: Callable[[int], None]) -> None:
    """Add the rows."""
    for done in range(0, rows, PART):
        environment.say(f"{line}: {short(done)} of {short(rows)} rows")
        add(min(PART, rows - done))
    environment.say(f"{line}: VACUUM")
    backlog.vacuum_all(environment.connection)


WorkOff = Callable[[], tuple[Round, float | None]]


@contextmanager
def watched(environment: Environment, queues: Sequence[str]) -> Iterator[WorkOff]:
    """Run a worker behind a proxy. Yield a function that works off a backlog once and returns the rate and the seconds
    of claiming per task; without the proxy it returns None for the seconds."""
    backlog.clear(environment.connection)
    backlog.pause(environment.connection, queues)
    try:
        with (
            ProxyProcess(environment) as between,
            Workers(environment, queues=queues, info=between.info) as workers,
        ):
            yield lambda: once(environment, workers, queues, between)
    except ProxyFailed:
        with Workers(environment, queues=queues) as workers:
            yield lambda: once(environment, workers, queues, None)


def once(
    environment: Environment, workers: Workers, queues: Sequence[str], between: ProxyProcess | None
) -> tuple[Round, float | None]:
    tasks = environment.sizes.work_off
    backlog.fill(environment.connection, KIND, tasks, queues=list(queues))
    before = between.counts() if between else {}
    done = backlog.work_off(environment, workers, tasks, queues)
    waited = growth_of("waited_seconds", before, between.counts()) if between else {}
    return done, waited[CLAIMS] / tasks if CLAIMS in waited else None


def measured(environment: Environment, line: str, work_off: WorkOff) -> tuple[Rounds, float | None]:
    """Work off some backlogs. Return the rates and the cost of a claim."""
    rounds, claims = list[Round](), list[float]()
    for n in range(environment.sizes.rounds):
        environment.say(f"{line}, round {n + 1} of {environment.sizes.rounds}")
        done, claim = work_off()
        rounds.append(done)
        claims += [claim] if claim is not None else []
    return tuple(rounds), median(claims) if claims else None


def compared(
    environment: Environment,
    line: str,
    small: tuple[Rounds, float | None],
    large: tuple[Rounds, float | None],
) -> Result:
    details = {"claim ×": large[1] / small[1]} if large[1] and small[1] else {}
    return Result(
        line=line, unit="tasks/s", ours=large[0], floor=small[0], floor_is="the small case", goals=GOALS,
        tasks=environment.sizes.work_off, details=details,
    )  # fmt: skip
