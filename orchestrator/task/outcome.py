"""How an attempt may end. A sum type: each end has the fields that it needs and no others.

An `Outcome` is a task that a worker holds, with the end that the worker writes under the task's lease.
"""

from dataclasses import dataclass
from typing import Literal
from uuid import UUID

import msgspec

from orchestrator.task.claimed import Claimed


@dataclass(frozen=True, slots=True)
class Fault:
    """An error, as text that PostgreSQL can hold."""

    class_name: str
    message: str
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Completed:
    """The handler returned; the result is JSON text, or None for none."""

    result: str | None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, timed out, or returned a value that is no JSON: the task runs again after a while."""

    fault: Fault
    kind: Literal["failed", "timeout"]
    after_seconds: float


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """The last attempt failed, or another one is useless: the task becomes a dead letter."""

    fault: Fault
    kind: Literal["failed", "timeout", "discarded"]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The handler raised Cancel: the task is not wanted any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The handler raised Snooze: the task runs later. The attempt does not count."""

    after_seconds: float


@dataclass(frozen=True, slots=True)
class PutBack:
    """This worker does not know the type. The attempt does not count; the delay grows, to avoid a busy loop."""

    fault: Fault
    after_seconds: float
    times: int


@dataclass(frozen=True, slots=True)
class Released:
    """Not run to its end, for no fault of the task. Does not count; ready again at once, in its old place."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The handler completed the task itself, in a transaction with its own writes. Nothing is left to write."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease was void before the attempt ended. The task is not changed; the execution is recorded."""

    reason: str


End = Completed | Failed | DeadLettered | Cancelled | Snoozed | PutBack | Released | Recorded | Lost


RELEASED = Released()

# Where a task is in its worker. Only worker/ledger.py changes this, and says what each state means.
State = Literal["claimed", "waiting", "starting", "running", "ending", "abandoned", "writing"]
NO_WORKER = UUID(int=0)


class Outcome(msgspec.Struct, eq=False, gc=False):
    """A task that a worker holds, and how its attempt ended. Until it has ended, its end is Released. The times are by
    our monotonic clock; `begun_at` is None if no handler has started."""

    task: Claimed
    end: End = RELEASED
    begun_at: float | None = None
    ended_at: float = 0.0
    taken_at: float = 0.0  # when this worker got the task
    worker_id: UUID = NO_WORKER  # under which it was claimed
    state: State = "claimed"
