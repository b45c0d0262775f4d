"""How an attempt may end. A sum: each end carries what it needs and nothing else.

An `Outcome` is one of these ends together with the task and the lease that allows it to be written.
"""

from dataclasses import dataclass
from typing import Literal

import msgspec

from orchestrator.task.claimed import Claimed


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong, as text that PostgreSQL can hold."""

    class_name: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; the result is JSON text, or None for none."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, timed out, or returned what is no JSON: it runs again after a while."""

    fault: Fault
    kind: Literal["failed", "timeout"]
    after_seconds: float


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The last attempt failed, or there is no point in another: a dead letter."""

    fault: Fault
    kind: Literal["failed", "timeout", "discarded"]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler said that the task is no longer wanted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler said: later. The attempt is not counted."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class PutBack:
    """This worker does not know the type. Not counted; the delay grows, so that it is no loop."""

    fault: Fault
    after_seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class Released:
    """Not run to its end, through no fault of its own. Not counted, ready again at once, in its old place."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The attempt has completed its task itself, in a transaction with its own writes. Nothing is left to write."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease was void before the attempt ended. Nothing is written about the task; that it ran goes on record."""

    reason: str


End = Completed | Failed | DeadLettered | Cancelled | Snoozed | PutBack | Released | Recorded | Lost


class Outcome(msgspec.Struct, frozen=True):
    """An end, and whose it is; and by our monotonic clock when its handler started (None: it did not) and ended, and
    since when its task was in our hands. A struct: to make a named tuple and to read it takes three times as long."""

    task: Claimed
    end: End
    begun_at: float | None = None
    ended_at: float = 0.0
    taken_at: float = 0.0
