"""What a measure gives: figures of ours, of the floor beside them, and of what both cost."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One line. `ours` and `floor` hold a figure for each round; the costs are of ours, by the task."""

    line: str
    unit: Unit
    ours: tuple[float, ...]
    floor: tuple[float, ...] = ()
    floor_is: str = ""
    goals: tuple[Goal, ...] = ()
    tasks: int = 0
    spent: tuple[Spent, ...] = ()
    floor_spent: tuple[Spent, ...] = ()
    details: Mapping[str, float] = field(default_factory=dict)

    @property
    def figure(self) -> float:
        """Our median."""
        return median(self.ours)

    @property
    def floor_figure(self) -> float | None:
        """The floor's median."""
        return median(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """Ours over the floor, of the medians: for a rate the more the better, for a time the less."""
        floor = self.floor_figure
        return self.figure / floor if floor else None

    @property
    def client_seconds(self) -> float | None:
        """CPU seconds of our processes, workers or producers, per 10,000 tasks."""
        return self._per_task([s.client_seconds for s in self.spent], 10_000)

    @property
    def server_seconds(self) -> float | None:
        """CPU seconds of the server, all its processes, per 10,000 tasks; None where it cannot be seen from here."""
        return self._per_task([s.server_seconds for s in self.spent], 10_000)

    @property
    def wal_bytes(self) -> float | None:
        """Bytes of WAL per task."""
        return self._per_task([float(s.wal_bytes) for s in self.spent], 1)

    def value(self, name: str) -> float | None:
        """Return what a goal speaks of."""
        return {"ratio": self.ratio, "ours": self.figure}.get(name, self.details.get(name))

    def missed(self) -> list[Goal]:
        """Return the goals that it does not keep."""
        return [g for g in self.goals if (value := self.value(g.of)) is not None and not g.is_met(value)]

    def _per_task(self, values: list[float | None], times: float) -> float | None:
        known = [value for value in values if value is not None]
        return times * median(known) / self.tasks if known and self.tasks else None


@dataclass(frozen=True, slots=True)
class Skipped:
    """A line that cannot be measured here, and why."""

    line: str
    reason: str


@dataclass(frozen=True, slots=True)
class Measure:
    """Something to be measured, by the name that --only knows."""

    name: str
    about: str
    take: Callable[[Ground], Iterator[Result | Skipped]]
