"""One slot of a worker, and the tasks that wait for a slot."""

import asyncio
from collections import deque
from contextlib import suppress
from uuid import UUID

from orchestrator.execute import Attempt
from orchestrator.task.claimed import Claimed

# An attempt that has run for MARK_SECONDS is marked `running`. If the database does not mark it, it is offered again.
MARK_SECONDS = 0.03
MARK_AGAIN_SECONDS = 1.0

# A task that waits for a slot, the worker id of its claim, since when it waits, whether it is marked `running`.
Waiting = tuple[Claimed, UUID, float, bool]


class Slot:
    """Room for one running attempt after another."""

    __slots__ = ("attempt", "is_last", "is_void", "job")

    def __init__(self) -> None:
        self.job: asyncio.Task[None] | None = None
        self.attempt: Attempt | None = None
        self.is_last = False  # the slot ends with its attempt
        # The worker has already put the attempt's outcome on record. What the handler still returns is ignored.
        self.is_void = False

    def is_spent(self) -> bool:
        """Whether its asyncio task was cancelled, by the worker or by a handler: the cancellation may still arrive."""
        return self.job is None or self.job.cancelling() > 0


def taken(waiting: deque[Waiting], count: int) -> list[tuple[Claimed, UUID]]:
    """Take `count` entries from the front, or as many as another thread leaves."""
    found = []
    with suppress(IndexError):
        for _ in range(count):
            task, worker_id, *_ = waiting.popleft()
            found.append((task, worker_id))
    return found


def is_unmarked(attempt: Attempt, now: float) -> bool:
    """Tell whether an attempt has run so long that it should be marked `running`."""
    return not attempt.is_marked and now - attempt.begun_at > MARK_SECONDS and now >= attempt.mark_at
