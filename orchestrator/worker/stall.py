"""Notice that a handler blocks the loop, from the heartbeat's thread, and do there what the loop cannot: give back what
has not begun, and what claims have found whose answers nobody reads; and mark running what runs.

The worker lives on, and so do the leases of what it runs; but nothing else of it moves until the handler lets go.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from orchestrator import events, execute, finish
from orchestrator.task.model import Claimed
from orchestrator.worker.report import leases
from orchestrator.worker.slots import Slots

# How often the loop is seen, and looks whether the database has been silent for too long.
WATCH_SECONDS = 0.25
# From when on the loop counts as blocked; well above what a busy machine does to it.
STALLED_SECONDS = 1.0
LOOK_SECONDS = 0.5
TYPES_NAMED_MAX = 5


@dataclass(slots=True)
class Stall:
    """When the loop was seen last. `forsake` gives up the claims that are on their way, and returns their leases."""

    slots: Slots
    forsake: Callable[[], set[int]]
    _seen_at: float = math.inf
    _blocked: bool = False

    def seen(self, worker_id: UUID) -> None:
        """Say, on the loop, that it turns; every WATCH_SECONDS, or as soon after that as it can."""
        now = time.monotonic()
        if self._seen_at < math.inf:
            events.emit(events.LoopTurned(max(0.0, now - self._seen_at - WATCH_SECONDS)))
        if self._blocked:
            self._blocked = False
            events.emit(events.LoopFree(worker_id, round(now - self._seen_at, 3)))
        self._seen_at = now

    def stop(self) -> None:
        """The loop need not turn any more."""
        self._seen_at = math.inf

    @property
    def lag_seconds(self) -> float:
        """How late the loop is; not at all where it need not turn."""
        return max(0.0, time.monotonic() - self._seen_at - WATCH_SECONDS)

    @property
    def is_on(self) -> bool:
        """Whether the loop does not turn."""
        return time.monotonic() - self._seen_at > STALLED_SECONDS

    def relieve(
        self, connection: psycopg.Connection[Any], worker_id: UUID, *, held: Callable[[], Iterable[Claimed]]
    ) -> None:
        """Do the loop's work, on another thread."""
        running = self.slots.unmarked()
        if not self._blocked:
            self._blocked = True
            kinds = sorted({task.type for task in self.slots.running()})
            events.emit(events.LoopBlocked(worker_id, tuple(kinds[:TYPES_NAMED_MAX])))
        if running:
            tasks, ages = [attempt.task for attempt, _ in running], [age for _, age in running]
            marked = execute.begin_now(connection, tasks, ages=ages)
            for attempt, _ in running:
                attempt.is_marked = attempt.task.id in marked
        unbegun = [task for task, _ in self.slots.take_back()]
        if forsaken := self.forsake():
            _, ghosts = leases(connection, worker_id, held())
            unbegun += [ghost for ghost in ghosts if ghost.lease in forsaken]
        finish.release_now(connection, unbegun, worker_id=worker_id)
