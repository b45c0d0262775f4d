"""The common interface of the model and the database: the types of arguments and answers.

Times are whole seconds from the start of an example, workers are numbers; so a failed story is readable.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.task.outcome import End

QUEUES = ("default", "bulk")
TERM_SECONDS = 10
DEAD_AFTER_SECONDS = 30
TIMEOUT_MARGIN_SECONDS = 15
BACKOFF_BASE_SECONDS = 60
BACKOFF_CAP_SECONDS = 300

# The rows of each table, compared after each step.
Row = dict[str, Any]
Snapshot = dict[str, list[Row]]


class Refused(Exception):
    """A refusal: with an SQLSTATE, or because the term has ended."""


TERM_OVER = "term over"


@dataclass(frozen=True, slots=True)
class Order:
    """The arguments of a producer."""

    queue: str = "default"
    key: str | None = None
    window: int = 3600
    delay: int = 0
    priority: int = 50
    max_attempts: int = 2
    timeout: int = 60


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that a worker holds."""

    task: int
    lease: int
    worker: int
    attempt: int
    max_attempts: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """The elected worker, and its term."""

    worker: int
    term: int


@dataclass(frozen=True, slots=True)
class Beaten:
    """The answer to a beat."""

    alive: bool
    draining: bool
    term: int | None
    paused: tuple[str, ...]
    leader: int | None
    holds: bool


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of a worker's leases: lost ones, and ghosts."""

    lost: Mapping[tuple[int, int], str]
    ghosts: tuple[Claim, ...]


Ends = Iterable[tuple[Claim, End]]


@dataclass(frozen=True, slots=True)
class Edit:
    """The values of a manual change of a task; `None` is left out."""

    status: str | None = None
    priority: int | None = None
    run_at: int | None = None
