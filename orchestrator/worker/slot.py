"""One slot of a worker, and what waits for one."""

import asyncio
from collections import deque
from contextlib import suppress
from uuid import UUID

from orchestrator.execute import Attempt
from orchestrator.task.claimed import Claimed

# What has run for so long is marked running; what the database would not mark is offered again after a while.
MARK_SECONDS = 0.03
MARK_AGAIN_SECONDS = 1.0

# A task that waits for a slot, under which id it was claimed, since when it waits, whether it is marked running.
Waiting = tuple[Claimed, UUID, float, bool]


class Slot:
    """One attempt after another."""

    __slots__ = ("attempt", "is_last", "is_void", "job")

    def __init__(self) -> None:
        self.job: asyncio.Task[None] | None = None
        self.attempt: Attempt | None = None
        self.is_last = False  # it ends with its attempt
        # Somebody else has said what became of its attempt; what the handler may still return is not looked at.
        self.is_void = False

    def is_spent(self) -> bool:
        """Whether its asyncio task was cancelled, by whomever: a cancellation may still be on its way."""
        return self.job is None or self.job.cancelling() > 0


def taken(waiting: deque[Waiting], count: int) -> list[tuple[Claimed, UUID]]:
    """Take so many from the front, or as many as another thread leaves."""
    found = []
    with suppress(IndexError):
        for _ in range(count):
            task, worker_id, *_ = waiting.popleft()
            found.append((task, worker_id))
    return found


def is_unmarked(attempt: Attempt, now: float) -> bool:
    """Tell whether an attempt lasts so long that it should be marked running."""
    return not attempt.is_marked and now - attempt.begun_at > MARK_SECONDS and now >= attempt.mark_at
