"""The result of a measure: our figures, the floor's figures, and the cost of both."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from orchestrator.bench.environment import Environment
from orchestrator.bench.rounds import Rounds

Unit = Literal["tasks/s", "ms", "MB", "1/s", "1/task"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal: a bound for the ratio, for our own figure, or for one of the details."""

    of: str = "ratio"
    least: float | None = None
    most: float | None = None

    def is_met(self, value: float) -> bool:
        """Return whether a figure meets the goal."""
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of tasks, as a median over the rounds; None if it is not known."""

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
        """Our median divided by the floor's. High is good for a rate, low is good for a time."""
        floor = self.floor_figure
        return self.figure / floor if floor else None

    def value(self, name: str) -> float | None:
        """Return the value that a goal names."""
        return {"ratio": self.ratio, "ours": self.figure}.get(name, self.details.get(name))

    def missed(self) -> list[Goal]:
        """Return the goals that the result does not meet."""
        return [g for g in self.goals if (value := self.value(g.of)) is not None and not g.is_met(value)]


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that cannot be measured here, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A line whose measure failed, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure, with its name for --only."""

    name: str
    about: str
    take: Callable[[Environment], Iterator[Result | Skipped]]


def cost(rounds: Rounds, tasks: int) -> Cost:
    """Return the cost of these rounds, each of `tasks` tasks."""
    spent = [r.spent for r in rounds if r.spent is not None]
    return Cost(
        by_task([s.client_seconds for s in spent], tasks, 10_000),
        by_task([s.server_seconds for s in spent], tasks, 10_000),
        by_task([float(s.wal_bytes) for s in spent], tasks, 1),
    )


def by_task(values: list[float | None], tasks: int, times: int) -> float | None:
    known = [value for value in values if value is not None]
    return times * median(known) / tasks if known and tasks else None
