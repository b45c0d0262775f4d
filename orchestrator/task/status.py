"""Where a task stands, and which step from there is whose.

The database holds the same table: what a hand may do is refused or completed by `guard_manual_update`, and a test
walks all pairs and compares. A pair that is missing here is nobody's.

    scheduled ──► pending ──► claimed ──► running ──► completed
        ▲            ▲           │           │    ├─► cancelled
        └────────────┴───────────┴───────────┘    └─► dead_letter      … and by hand, from any end, back to pending
"""

from collections.abc import Mapping
from enum import Flag, StrEnum, auto
from types import MappingProxyType


class Status(StrEnum):
    """What `tasks.status` may hold."""

    SCHEDULED = "scheduled"
    """Not yet due; a retry waits here too."""
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


class Who(Flag):
    """Who may make a step: a hand by plain SQL, a worker under its lease, or both."""

    HAND = auto()
    WORKER = auto()


FINISHED = frozenset({Status.COMPLETED, Status.CANCELLED, Status.DEAD_LETTER})
"""The ends; only a hand leads back from them."""

LEASED = frozenset({Status.CLAIMED, Status.RUNNING})
"""Held by a worker, under a lease."""

# A lease is what allows an end, not the mark: what has not begun can be given back, or recovered, too.
_FROM_A_WORKER: Mapping[Status, Who] = {
    Status.PENDING: Who.HAND | Who.WORKER,  # requeued; released or recovered
    Status.SCHEDULED: Who.HAND | Who.WORKER,  # requeued for later; retried, snoozed, of an unknown type
    Status.COMPLETED: Who.WORKER,
    Status.CANCELLED: Who.HAND | Who.WORKER,
    Status.DEAD_LETTER: Who.WORKER,
}
_FROM_AN_END: Mapping[Status, Who] = {Status.PENDING: Who.HAND, Status.SCHEDULED: Who.HAND}

TRANSITIONS: Mapping[Status, Mapping[Status, Who]] = MappingProxyType(
    {
        Status.SCHEDULED: {Status.PENDING: Who.HAND | Who.WORKER, Status.CANCELLED: Who.HAND},
        # A worker opens it once what it waited for has ended.
        Status.BLOCKED: {
            Status.PENDING: Who.HAND | Who.WORKER,
            Status.SCHEDULED: Who.HAND | Who.WORKER,
            Status.CANCELLED: Who.HAND,
        },
        Status.PENDING: {
            Status.SCHEDULED: Who.HAND,
            Status.CLAIMED: Who.WORKER,
            Status.CANCELLED: Who.HAND,
        },
        Status.CLAIMED: {Status.RUNNING: Who.WORKER, **_FROM_A_WORKER},
        Status.RUNNING: _FROM_A_WORKER,
        Status.COMPLETED: _FROM_AN_END,
        Status.CANCELLED: _FROM_AN_END,
        Status.DEAD_LETTER: _FROM_AN_END,
    }
)
"""From each status: whither, and by whom. A hand sets `scheduled` by giving a future run_at."""


def may(who: Who, old: Status, new: Status) -> bool:
    """Tell whether this step is theirs."""
    return who in TRANSITIONS[old].get(new, Who(0))
