"""The things that a fault can hit, and where."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from tests.chaos.fleet import Fleet, Place
from tests.chaos.manual import Hands
from tests.chaos.schedule import Fault
from tests.servers import Server


class Targets(Protocol):
    """What a fault may strike, and how it is undone."""

    fleet: Fleet
    hands: Hands
    server: Server
    newest: int
    dead_after_seconds: float
    term_seconds: float

    @property
    def counts(self) -> Counter[str]:
        """How many faults there were, by kind."""

    def ask(self, statement: str, *params: object) -> list[tuple[object, ...]]:
        """Ask the server, as its superuser; nothing, when it is away."""

    def later(self, seconds: float, undo: Callable[[], object]) -> None:
        """Do this after so long."""

    def record(self, kind: str, target: str, detail: str) -> None:
        """Write a fault down."""

    def write(self, name: str, line: list[Any]) -> None:
        """Write a line into one of the books that are files."""

    def remark(self, text: str) -> None:
        """Say on the page of the run what is no fault, and no offence."""

    def enqueue_poison(self) -> bool:
        """Enqueue a task that kills its process."""


Strike = Callable[[Targets, Fault], int]


def place_of(targets: Targets, fault: Fault) -> Place:
    """Return the place that is struck; a producer's, now and then."""
    places = [*targets.fleet.workers, *targets.fleet.workers, *targets.fleet.producers]
    return places[int(fault.where * len(places))]


def worker_of(targets: Targets, fault: Fault) -> Place:
    return targets.fleet.workers[int(fault.where * len(targets.fleet.workers))]
