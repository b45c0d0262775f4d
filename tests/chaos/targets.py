"""The things that a fault can hit, and the choice of one of them."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.chaos.fleet import Fleet, Place
from tests.chaos.manual import Operators
from tests.chaos.schedule import Fault
from tests.servers import Server


class Targets(Protocol):
    """The things that a fault can hit, and how it is undone."""

    fleet: Fleet
    operators: Operators
    server: Server
    newest: int
    dead_after_seconds: float
    term_seconds: float

    @property
    def counts(self) -> Counter[str]:
        """The number of faults, by kind."""

    def ask(self, statement: str, *params: object) -> list[tuple[object, ...]]:
        """Run a query as the server's superuser; no rows if the server is away."""

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        """Call this after this time."""

    def record(self, kind: str, target: str, detail: str) -> None:
        """Record a fault."""

    def write(self, name: str, line: list[Any]) -> None:
        """Write a line into one of the record files."""

    def remark(self, text: str) -> None:
        """Add a remark to the report that is neither a fault nor a violation."""

    def enqueue_poison(self) -> bool:
        """Enqueue a task that kills its process."""


Strike = Callable[[Targets, Fault], int]


def place_of(targets: Targets, fault: Fault) -> Place:
    """Return the place to hit: mostly a worker's, sometimes a producer's."""
    places = [*targets.fleet.workers, *targets.fleet.workers, *targets.fleet.producers]
    return places[int(fault.where * len(places))]


def worker_of(targets: Targets, fault: Fault) -> Place:
    return targets.fleet.workers[int(fault.where * len(targets.fleet.workers))]
