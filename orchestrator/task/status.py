"""The status of a task, and who may make each step between two statuses.

The database holds the same table: `guard_manual_update` refuses or completes a manual change, and a test compares all
pairs. A pair that is missing here is allowed to neither a worker nor an operator.

    scheduled ──► pending ──► claimed ──► running ──► completed
        ▲            ▲           │           │    ├─► cancelled
        └────────────┴───────────┴───────────┘    └─► dead_letter      … and manually, from any end, back to pending
"""

from collections.abc import Mapping
from enum import Flag, StrEnum, auto
from types import MappingProxyType


class Status(StrEnum):
    """The values of `tasks.status`."""

    SCHEDULED = "scheduled"
    """Not yet due. A retry waits here too."""
    BLOCKED = "blocked"
    """Waits for other tasks."""
    PENDING = "pending"
    CLAIMED = "claimed"
    """A worker holds it and has not started it."""
    RUNNING = "running"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DEAD_LETTER = "dead_letter"
    """Its attempts are used up, or it was refused for good."""


class ChangedBy(Flag):
    """What may make a step: a manual change, a worker under its lease, or both."""

    MANUAL = auto()
    WORKER = auto()


FINISHED = frozenset({Status.COMPLETED, Status.CANCELLED, Status.DEAD_LETTER})
"""The ends. Only a manual change leads back from them."""

LEASED = frozenset({Status.CLAIMED, Status.RUNNING})
"""Held by a worker, under a lease."""

# The lease allows an end, not the status `running`: a claimed task can be given back, or recovered, too.
_FROM_A_WORKER: Mapping[Status, ChangedBy] = {
    Status.PENDING: ChangedBy.MANUAL | ChangedBy.WORKER,  # requeued; released or recovered
    Status.SCHEDULED: ChangedBy.MANUAL
    | ChangedBy.WORKER,  # requeued for later; retried, snoozed, of an unknown type
    Status.COMPLETED: ChangedBy.WORKER,
    Status.CANCELLED: ChangedBy.MANUAL | ChangedBy.WORKER,
    Status.DEAD_LETTER: ChangedBy.WORKER,
}
_FROM_AN_END: Mapping[Status, ChangedBy] = {
    Status.PENDING: ChangedBy.MANUAL,
    Status.SCHEDULED: ChangedBy.MANUAL,
}

TRANSITIONS: Mapping[Status, Mapping[Status, ChangedBy]] = MappingProxyType(
    {
        Status.SCHEDULED: {
            Status.PENDING: ChangedBy.MANUAL | ChangedBy.WORKER,
            Status.CANCELLED: ChangedBy.MANUAL,
        },
        # A worker unblocks it once the tasks that it waited for have ended.
        Status.BLOCKED: {
            Status.PENDING: ChangedBy.MANUAL | ChangedBy.WORKER,
            Status.SCHEDULED: ChangedBy.MANUAL | ChangedBy.WORKER,
            Status.CANCELLED: ChangedBy.MANUAL,
        },
        Status.PENDING: {
            Status.SCHEDULED: ChangedBy.MANUAL,
            Status.CLAIMED: ChangedBy.WORKER,
            Status.CANCELLED: ChangedBy.MANUAL,
        },
        Status.CLAIMED: {Status.RUNNING: ChangedBy.WORKER, **_FROM_A_WORKER},
        Status.RUNNING: _FROM_A_WORKER,
        Status.COMPLETED: _FROM_AN_END,
        Status.CANCELLED: _FROM_AN_END,
        Status.DEAD_LETTER: _FROM_AN_END,
    }
)
"""For each status: the next ones, and what may set them. A manual change to `scheduled` sets a future run_at."""


def may(by: ChangedBy, old: Status, new: Status) -> bool:
    """Return whether this kind of change may make this step."""
    return by in TRANSITIONS[old].get(new, ChangedBy(0))
