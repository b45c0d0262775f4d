"""Whether it stays as fast when there is much in the tables: waiting, scheduled, finished, or in many queues.

The small case is measured again before each large one. What a claim costs is seen on the line between the worker and
the server: how long its connection for claims waits for answers, by the task.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import median

from orchestrator.bench import backlog
from orchestrator.bench.backlog import DEFAULT, Drained
from orchestrator.bench.between import CLAIMS, Between, NoWayThrough, said
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.result import Goal, Result

GOALS = (Goal(least=0.9), Goal(of="claim ×", most=1.3))
A_YEAR = 365 * 86_400.0
KIND = "bench.nothing"
# A part of the rows at a time: it takes so long that somebody may want to see it go on.
PART = 250_000


def grown(ground: Ground) -> Iterator[Result]:
    """Drain small and large cases by turns."""
    sizes, connection = ground.sizes, ground.connection
    many = [f"queue-{n}" for n in range(sizes.queues)]

    def ready(part: int) -> None:
        backlog.fill(connection, KIND, part)

    def scheduled(part: int) -> None:
        backlog.fill(connection, KIND, part, ahead=A_YEAR)

    def finished(part: int) -> None:
        backlog.fill_finished(connection, KIND, part)

    yield case(ground, f"growth, {sizes.ready:,} ready", sizes.ready, ready)
    yield case(ground, f"growth, {sizes.scheduled:,} scheduled", sizes.scheduled, scheduled)
    yield case(ground, f"growth, {sizes.finished:,} finished", sizes.finished, finished)
    yield case(ground, f"growth, {sizes.queues:,} queues", queues=many)


def case(
    ground: Ground,
    line: str,
    more: int = 0,
    add: Callable[[int], None] | None = None,
    *,
    queues: Sequence[str] = DEFAULT,
) -> Result:
    """Drain with nothing else there, add what is to be much, and drain again."""
    connection = ground.connection
    backlog.clear(connection)
    small, small_claim = rounds(ground, f"{line}: small", DEFAULT)
    backlog.clear(connection)
    for done in range(0, more, PART):
        ground.say(f"{line}: filling, {done:,}")
        if add is not None:
            add(min(PART, more - done))
    backlog.settle_all(connection)
    large, large_claim = rounds(ground, line, queues)
    backlog.clear(connection)
    details = {"claim ×": large_claim / small_claim} if large_claim and small_claim else {}
    return Result(
        line=line, unit="tasks/s", ours=tuple(d.rate for d in large), floor=tuple(d.rate for d in small),
        floor_is="the small case", goals=GOALS, tasks=ground.sizes.drain, spent=tuple(d.spent for d in large),
        floor_spent=tuple(d.spent for d in small), details=details,
    )  # fmt: skip


def rounds(ground: Ground, line: str, queues: Sequence[str]) -> tuple[list[Drained], float | None]:
    """Drain a few times as ever, then once through a proxy; return that, and what a claim costs by the task."""
    drained = list[Drained]()
    backlog.shut(ground.connection, queues)
    with Crew(ground, queues=queues) as crew:
        for turn in range(ground.sizes.rounds):
            ground.say(f"{line}, round {turn + 1} of {ground.sizes.rounds}")
            drained.append(one_round(ground, crew, queues))
    try:
        with Between(ground) as between, Crew(ground, queues=queues, info=between.info) as crew:
            ground.say(f"{line}, claims")
            claims = list[float]()
            for _ in range(ground.sizes.rounds):
                before = between.counts()
                one_round(ground, crew, queues)
                waited = said(before, between.counts(), "waited_seconds")
                claims.append(waited.get(CLAIMS, 0.0) / ground.sizes.drain)
    except NoWayThrough:
        return drained, None
    return drained, median(claims)


def one_round(ground: Ground, crew: Crew, queues: Sequence[str]) -> Drained:
    backlog.fill(ground.connection, KIND, ground.sizes.drain, queues=list(queues))
    backlog.settle(ground.connection)
    crew.settle()
    return backlog.drain(ground, crew, ground.sizes.drain, queues)
