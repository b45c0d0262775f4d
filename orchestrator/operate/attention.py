"""What an operator should act on, and the command for it. Pure functions: rules over the facts of one status query.

The most urgent first: no task runs · a queue is paused or draining · no worker runs its tasks · tasks fail · tasks are
late · something is unusual.
"""

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orchestrator.operate.queues import Queue
from orchestrator.operate.unknown_types import UnknownType
from orchestrator.operate.workers import Worker

# A queue that has workers and ready tasks older than this has too few workers, or is stuck.
LATE = timedelta(minutes=5)
# The leader samples every 15 s, and less often if that is expensive: it spends at most a twentieth of its time on it.
STALE = timedelta(minutes=5)
# Without a leader there are no samples, and an old one only gets older.
STALE_UNLED = timedelta(minutes=1)
# The part of its dead_after for which a worker may miss its beat; by default two beats are missing then.
SILENT = 0.5
# Items listed of one kind; the others are only counted.
NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Concern:
    """One thing to act on. `command`: the command that helps, or shows more."""

    about: str
    command: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The facts that the rules use."""

    queues: Sequence[Queue]
    workers: Sequence[Worker]
    at: datetime
    counted_at: datetime | None
    led: bool
    copied_from: str | None
    unknown_types: Sequence[UnknownType]

    @property
    def live(self) -> list[Worker]:
        return [each for each in self.workers if each.live]

    def serves(self, queue: Queue) -> bool:
        return any(queue.name in each.queues for each in self.live if each.state == "running")


def concerns(
    queues: Sequence[Queue],
    workers: Sequence[Worker],
    *,
    at: datetime,
    counted_at: datetime | None,
    led: bool,
    copied_from: str | None,
    unknown_types: Sequence[UnknownType],
) -> list[Concern]:
    """Return what needs attention."""
    overview = Overview(queues, workers, at, counted_at, led, copied_from, unknown_types)
    return [concern for rule in RULES for concern in bounded(list(rule(overview)))]


def bounded(found: list[Concern]) -> list[Concern]:
    """Return the first few of one kind, and how many more there are."""
    if len(found) <= NAMED_MAX:
        return found
    return [
        *found[:NAMED_MAX],
        Concern(f"and {len(found) - NAMED_MAX} more like this", "orchestrator queues list"),
    ]


def copy_not_resumed(overview: Overview) -> Iterator[Concern]:
    if overview.copied_from is not None:
        yield Concern(
            f"nothing runs here: the tasks are a copy ({overview.copied_from})",
            "orchestrator resume --after-restore",
        )


def not_active(overview: Overview) -> Iterator[Concern]:
    for queue in overview.queues:
        if queue.state == "active":
            continue
        what = "paused" if queue.state == "paused" else "draining, and refuses new tasks,"
        since = "" if queue.state_since is None else f" since {queue.state_since:%Y-%m-%d %H:%M} UTC"
        by = f" by {queue.state_by}" if queue.state_by else ""
        why = f" ({queue.state_reason})" if queue.state_reason else ""
        yield Concern(
            f"queue {queue.name} is {what}{since}{by}{why}: {tasks(queue.ready)} ready",
            f"orchestrator queues resume {argument(queue.name)}",
        )


def unserved(overview: Overview) -> Iterator[Concern]:
    for queue in overview.queues:
        if queue.ready and queue.state != "paused" and not overview.serves(queue):
            yield Concern(
                f"no live worker serves queue {queue.name}: {tasks(queue.ready)} ready",
                f"orchestrator worker MODULE:APP --queues {shlex.quote(queue.name)}",
            )


def no_leader(overview: Overview) -> Iterator[Concern]:
    if overview.led:
        return
    if overview.live:
        yield Concern(
            "there is no leader: the tasks of dead workers are not taken back", "orchestrator doctor"
        )
    else:
        yield Concern(
            "no worker lives: no task runs, and there is no leader", "orchestrator worker MODULE:APP"
        )


def silent(overview: Overview) -> Iterator[Concern]:
    for worker in overview.workers:
        last_beat = f"its last beat was {round(worker.beat_age.total_seconds()):,} s ago"
        if not worker.live:
            says = (
                f"worker {worker.name} is dead ({last_beat}) and holds {tasks(worker.holds)}: the leader, or the next "
                "worker that starts, takes them back"
            )
        elif worker.beat_age > SILENT * worker.dead_after:
            says = (
                f"worker {worker.name} is silent ({last_beat}) and holds {tasks(worker.holds)}: it is declared dead "
                f"after {worker.dead_after.total_seconds():g} s"
            )
        else:
            continue
        yield Concern(says, f"orchestrator workers stop {worker.id}")


def unknown(overview: Overview) -> Iterator[Concern]:
    for each in overview.unknown_types:
        yield Concern(
            f"workers give back {tasks(each.count)} of queue {each.queue}: they do not know the type {each.type}",
            f"orchestrator explain {each.first}",
        )


def dead(overview: Overview) -> Iterator[Concern]:
    for queue in overview.queues:
        if queue.dead_letters:
            yield Concern(
                f"queue {queue.name} has {queue.dead_letters:,} dead letter{plural(queue.dead_letters)}",
                "orchestrator failures",
            )


def late(overview: Overview) -> Iterator[Concern]:
    for queue in overview.queues:
        age = queue.oldest_ready_age
        if age is not None and age > LATE and queue.state != "paused" and overview.serves(queue):
            yield Concern(
                f"the oldest ready task of queue {queue.name} waits for {round(age.total_seconds() / 60):,} min: its "
                "workers are too few, or busy with more urgent tasks",
                f"orchestrator tasks list --queue {shlex.quote(queue.name)} --status pending",
            )


def versions(overview: Overview) -> Iterator[Concern]:
    found = sorted({each.version for each in overview.live})
    if len(found) > 1:
        yield Concern(f"workers run {len(found)} versions: {', '.join(found)}", "orchestrator workers list")


def stale(overview: Overview) -> Iterator[Concern]:
    if overview.counted_at is None and overview.queues:
        yield Concern(
            "there are too many tasks to count now, and no leader has counted them yet",
            "orchestrator status --exact",
        )
    elif overview.counted_at is not None and overview.at - overview.counted_at > (
        STALE if overview.led else STALE_UNLED
    ):
        minutes = round((overview.at - overview.counted_at).total_seconds() / 60)
        yield Concern(
            f"the figures of the queues are {minutes:,} min old; newer queues are missing",
            "orchestrator status --exact",
        )


def argument(name: str) -> str:
    """Return the name as a shell takes it, and a command that would take it for a flag."""
    return f"-- {shlex.quote(name)}" if name.startswith("-") else shlex.quote(name)


def tasks(number: int | None) -> str:
    return f"{number or 0:,} task{plural(number)}"


def plural(number: int | None) -> str:
    return "" if number == 1 else "s"


RULES: tuple[Callable[[Overview], Iterator[Concern]], ...] = (
    copy_not_resumed, not_active, unserved, no_leader, silent, unknown, dead, late, versions, stale,
)  # fmt: skip
