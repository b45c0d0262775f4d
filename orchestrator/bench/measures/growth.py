"""Whether it stays as fast when there is much in the tables: waiting, scheduled, finished, or in many queues.

The small case is measured again before each large one, with the same worker. It works through a proxy that adds no
delay: what a claim costs is how long its connection for claims waits for answers, by the task.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median

from orchestrator.bench import backlog
from orchestrator.bench.backlog import DEFAULT
from orchestrator.bench.between import CLAIMS, Between, NoWayThrough, said
from orchestrator.bench.crew import Crew
from orchestrator.bench.figures import short
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, Rounds

GOALS = (Goal(least=0.9), Goal(of="claim ×", most=1.3))
A_YEAR = 365 * 86_400.0
KIND = "bench.nothing"
# So many rows in one statement: it takes so long that somebody may want to see it go on.
PART = 250_000


def grown(ground: Ground) -> Iterator[Result]:
    """Drain small and large cases by turns."""
    sizes, connection = ground.sizes, ground.connection
    cases = (
        ("ready", sizes.ready, partial(backlog.fill, connection, KIND)),
        ("scheduled", sizes.scheduled, partial(backlog.fill, connection, KIND, ahead=A_YEAR)),
        ("finished", sizes.finished, partial(backlog.fill_finished, connection, KIND)),
    )
    with watched(ground, DEFAULT) as drain:
        for name, rows, add in cases:
            line = f"growth, {short(rows)} {name}"
            small = measured(ground, f"{line}: before", drain)
            pile(ground, line, rows, add)
            yield compared(ground, line, small, measured(ground, line, drain))
            backlog.clear(connection)
        line = f"growth, {sizes.queues} queues"
        small = measured(ground, f"{line}: before", drain)
    with watched(ground, [f"queue-{n}" for n in range(sizes.queues)]) as drain:
        yield compared(ground, line, small, measured(ground, line, drain))
    backlog.clear(connection)


def pile(ground: Ground, line: str, rows: int, add: Callable[[int], None]) -> None:
    """Put the rows there."""
    for done in range(0, rows, PART):
        ground.say(f"{line}: {short(done)} of {short(rows)} rows")
        add(min(PART, rows - done))
    ground.say(f"{line}: VACUUM")
    backlog.settle_all(ground.connection)


Drain = Callable[[], tuple[Round, float | None]]


@contextmanager
def watched(ground: Ground, queues: Sequence[str]) -> Iterator[Drain]:
    """Run a worker that can be watched, and give what drains once: how fast, and seconds of claiming by the task."""
    backlog.clear(ground.connection)
    backlog.shut(ground.connection, queues)
    try:
        with Between(ground) as between, Crew(ground, queues=queues, info=between.info) as crew:
            yield lambda: once(ground, crew, queues, between)
    except NoWayThrough:
        with Crew(ground, queues=queues) as crew:
            yield lambda: once(ground, crew, queues, None)


def once(
    ground: Ground, crew: Crew, queues: Sequence[str], between: Between | None
) -> tuple[Round, float | None]:
    tasks = ground.sizes.drain
    backlog.fill(ground.connection, KIND, tasks, queues=list(queues))
    before = between.counts() if between else {}
    done = backlog.drain(ground, crew, tasks, queues)
    waited = said(before, between.counts(), "waited_seconds") if between else {}
    return done, waited[CLAIMS] / tasks if CLAIMS in waited else None


def measured(ground: Ground, line: str, drain: Drain) -> tuple[Rounds, float | None]:
    """Drain some times; return how fast, and what a claim cost."""
    rounds, claims = list[Round](), list[float]()
    for n in range(ground.sizes.rounds):
        ground.say(f"{line}, round {n + 1} of {ground.sizes.rounds}")
        done, claim = drain()
        rounds.append(done)
        claims += [claim] if claim is not None else []
    return tuple(rounds), median(claims) if claims else None


def compared(
    ground: Ground, line: str, small: tuple[Rounds, float | None], large: tuple[Rounds, float | None]
) -> Result:
    details = {"claim ×": large[1] / small[1]} if large[1] and small[1] else {}
    return Result(
        line=line, unit="tasks/s", ours=large[0], floor=small[0], floor_is="the small case", goals=GOALS,
        tasks=ground.sizes.drain, details=details,
    )  # fmt: skip
