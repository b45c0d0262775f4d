"""The screen of `orchestrator status`: first what needs attention, then queues, workers and leader.

Each drawing fits the current width and height, so a live screen follows a resized terminal. If the room is too small,
idle queues and spare columns are left out first, and the screen says what is missing.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.text import Text

from orchestrator.cli import formats
from orchestrator.cli.table import Column, cells_of, laid_out
from orchestrator.observe import printable
from orchestrator.operate.queues import Queue
from orchestrator.operate.status import Status
from orchestrator.operate.workers import Worker

BARS = "▁▂▃▄▅▆▇█"
TREND_LOOKS = 12
# The rows of a table when the screen does not limit it. `queues list` and `workers list` show the rest.
ROWS_MAX = 40
ROWS_MIN = 3

QUEUES = (
    Column("name", "queue", folds=True),
    Column("ready", right=True, shown=formats.count),
    Column("trend", "lately", spare=True),
    Column("per_second", "rate", right=True, shown=formats.rate),
    Column("curve", "15 min", spare=True),
    Column("held", "running", right=True, shown=formats.count),
    Column("dead_letters", "dead", right=True, shown=formats.count),
    Column("oldest_ready_age", "oldest", right=True),
    Column("scheduled", right=True, shown=formats.count, spare=True),
    Column("state", spare=True),
)
WORKERS = (
    Column("name", "worker", folds=True),
    Column("slots", "busy", right=True),
    Column("beat_age", "beat", right=True),
    Column("state", "", spare=True),
    Column("version", spare=True),
    Column("serves", "queues", folds=True, spare=True),
)


@dataclass(slots=True)
class Trends:
    """The last few counts of each queue, for the curves of a live screen."""

    ready: dict[str, deque[int]] = field(default_factory=dict)

    def note(self, status: Status) -> None:
        """Add the counts of one look. Queues that no longer exist are dropped."""
        kept = {each.name: self.ready.get(each.name, deque(maxlen=TREND_LOOKS)) for each in status.queues}
        for each in status.queues:
            kept[each.name].append(each.ready or 0)
        self.ready = kept

    def curve(self, queue: str) -> str:
        return sparkline(self.ready.get(queue, ()))


@dataclass(frozen=True, slots=True)
class Overview:
    """The screen. `title`: the database. `trends`: for a live screen. `trouble`: why the figures are old."""

    status: Status
    title: str
    trends: Trends | None = None
    trouble: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        width = options.max_width
        lines_max = options.height if self.trends is not None else None
        title = printable(f"{formats.moment(self.status.at)}  {self.title}")
        yield Text(title, style="dim", no_wrap=True, overflow="ellipsis")
        if self.trouble is not None:
            yield Text(printable(self.trouble), style="bold red")
        attention = list(self.attention())
        yield from attention
        room = rows_for(lines_max, taken=2 * len(attention) + 8)
        yield Text()
        yield from self.queues(width, room)
        yield Text()
        yield from self.workers(width, room)
        yield Text()
        yield Text(printable(led(self.status)))

    def attention(self) -> Iterator[RenderableType]:
        """Draw each concern and the command that helps."""
        if not self.status.attention:
            yield Text("nothing needs attention", style="green")
        for concern in self.status.attention:
            yield Text(f"! {printable(concern.about)}", style="yellow")
            yield Padding(Text(printable(concern.command), style="cyan"), (0, 0, 0, 2))

    def queues(self, width: int, room: int) -> Iterator[RenderableType]:
        """Draw the queues by name. If there are too many, the busiest are chosen."""
        every = self.status.queues
        shown = sorted(sorted(every, key=idleness)[:room], key=lambda each: each.name)
        columns = [each for each in QUEUES if each.name != "trend" or self.trends is not None]
        if all(each.state == "active" for each in shown):
            columns = [each for each in columns if each.name != "state"]
        rows = [
            {**plain(each), "trend": self.trend(each), "curve": sparkline(each.by_minute)} for each in shown
        ]
        yield laid_out(columns, cells_of(rows, columns), width=width)
        yield from rest(len(every) - len(shown), "queues")
        age = None if self.status.counted_at is None else self.status.at - self.status.counted_at
        if age is not None and age.total_seconds() >= 1:
            yield Text(f"counted by the leader {formats.span(age)} ago; --exact counts now", style="dim")

    def trend(self, queue: Queue) -> str:
        return "" if self.trends is None else self.trends.curve(queue.name)

    def workers(self, width: int, room: int) -> Iterator[RenderableType]:
        """Draw the workers: silent ones first, then those that hold most."""
        every = self.status.workers
        if not every:
            yield Text("no workers")
            return
        shown = sorted(every, key=lambda each: (each.live, -each.holds, each.name))[:room]
        yield laid_out(WORKERS, cells_of(map(of_worker, shown), WORKERS), width=width)
        yield from rest(len(every) - len(shown), "workers")


def rows_for(lines: int | None, *, taken: int) -> int:
    """Return the rows for each of the two tables."""
    return ROWS_MAX if lines is None else max(ROWS_MIN, (lines - taken) // 2)


def rest(number: int, what: str) -> Iterator[RenderableType]:
    if number > 0:
        yield Text(f"and {number:,} more: orchestrator {what} list", style="dim")


def idleness(queue: Queue) -> tuple[bool, int, str]:
    """Return the sort key that puts queues that are not active first, then those with most tasks."""
    return (
        queue.state == "active",
        -sum(n or 0 for n in (queue.ready, queue.held, queue.dead_letters)),
        queue.name,
    )


def plain(queue: Queue) -> Mapping[str, Any]:
    return {name: getattr(queue, name) for name in Queue.__dataclass_fields__}


def of_worker(worker: Worker) -> Mapping[str, Any]:
    state = [] if worker.state == "running" else [worker.state]
    return {
        "name": worker.name,
        "slots": f"{worker.busy}/{worker.capacity}",
        "beat_age": formats.span(worker.beat_age),
        "state": ", ".join(
            [*state, *(["leads"] if worker.leads else []), *([] if worker.live else ["silent"])]
        ),
        "version": worker.version,
        "serves": worker.queues,
    }


def led(status: Status) -> str:
    leader = status.leader
    if leader is None:
        return "no worker leads"
    return f"{leader.host}:{leader.pid} leads, in term {leader.term}"


def sparkline(numbers: Iterable[int]) -> str:
    """Draw numbers as bars. The highest number gets the full bar."""
    counts: Sequence[int] = list(numbers)
    top = max(counts, default=0)
    return "".join(BARS[0 if top == 0 else round(n / top * (len(BARS) - 1))] for n in counts)
