"""What a measure gives: figures of ours, of the floor beside them, and of what both cost."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from orchestrator.bench.environment import Environment
from orchestrator.bench.rounds import Rounds

Unit = Literal["tasks/s", "ms", "MB", "1/s", "1/task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What we hold ourselves to: a bound for the ratio, for our own figure, or for one of the details."""

    of: str = "ratio"
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Tell whether a figure keeps to it."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True)
class Cost:
    """What tasks cost, as a median over the rounds; None where it is not known."""

    client_seconds: float | None  # CPU of our processes, workers or producers, for 10,000 tasks
    server_seconds: float | None  # CPU of the server, all its processes, for 10,000 tasks
    wal_bytes: float | None  # for one task


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line. `tasks` is the number of tasks of one round."""

    line: str
    unit: Unit
    ours: Rounds
    floor: Rounds = ()
    floor_is: str = ""
    tasks: int = 0
    goals: tuple[Goal, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> float:
        """Our median."""
        return median(r.figure for r in self.ours)

    @property
    def floor_figure(self) -> float | None:
        """The floor's median."""
        return median(r.figure for r in self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """Ours over the floor, of the medians: of a rate the more the better, of a time the less."""
        floor = self.floor_figure
        return self.figure / floor if floor else None

    def value(self, name: str) -> float | None:
        """Return what a goal speaks of."""
        return {"ratio": self.ratio, "ours": self.figure}.get(name, self.details.get(name))

    def missed(self) -> list[Goal]:
        """Return the goals that it does not keep."""
        return [g for g in self.goals if (value := self.value(g.of)) is not None and not g.is_met(value)]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that cannot be measured here, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A line that went wrong, and how."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measure:
    """Something to be measured, by the name that --only knows."""

    name: str
    about: str
    take: Callable[[Environment], Iterator[Result | Skipped]]


def cost(rounds: Rounds, tasks: int) -> Cost:
    """Return what these rounds of so many tasks each cost."""
    spent = [r.spent for r in rounds if r.spent is not None]
    return Cost(
        by_task([s.client_seconds for s in spent], tasks, 10_000),
        by_task([s.server_seconds for s in spent], tasks, 10_000),
        by_task([float(s.wal_bytes) for s in spent], tasks, 1),
    )


def by_task(values: list[float | None], tasks: int, times: int) -> float | None:
    known = [value for value in values if value is not None]
    return times * median(known) / tasks if known and tasks else None
