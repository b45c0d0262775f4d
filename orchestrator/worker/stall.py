"""Notice that a handler blocks the loop, from the heartbeat's thread, and do there what the loop cannot: give back what
has not begun, and what claims have found whose answers nobody reads; and mark running what runs.

The worker lives on, and so do the leases of what it runs; but nothing else of it moves until the handler lets go. When
that takes longer than every timeout it holds and `dead_after_seconds`, the worker is hung: it beats no more, so that it
is declared dead and what it holds goes to others; and `orchestrator worker` ends its process (watchdog.py).
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from orchestrator import events, execute, finish
from orchestrator.task.claimed import Claimed
from orchestrator.worker.beat_report import leases
from orchestrator.worker.slots import Slots

# How often the loop is seen, and looks whether the database has been silent for too long.
WATCH_SECONDS = 0.25
# From when on the loop counts as blocked; well above what a busy machine does to it.
STALLED_SECONDS = 1.0
LOOK_SECONDS = 0.5
# Between two looks no more than this counts: a process that was stopped for a while was not blocked for so long.
LOOK_SECONDS_MAX = 2 * LOOK_SECONDS
TYPES_NAMED_MAX = 5


@dataclass(slots=True)
class Stall:
    """When the loop was seen last. `abandon` gives up the claims that are on their way, and returns their leases."""

    slots: Slots
    abandon: Callable[[], set[int]]
    dead_after_seconds: float
    _seen_at: float = math.inf
    _blocked: bool = False
    _looked_at: float = 0.0
    # By the looks at it: the last turn of the loop, for how long it has been that, and how long it may be.
    _last_turn: float = math.inf
    _blocked_for: float = 0.0
    _patience: float = 0.0
    _hung: bool = False

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

    @property
    def blocked_seconds(self) -> float | None:
        """For how long the loop has not turned, if it is blocked."""
        return time.monotonic() - self._seen_at if self.is_on else None

    @property
    def patience_seconds(self) -> float:
        """For how long the loop may be blocked: longer than every timeout of what runs."""
        timeouts = [task.timeout_seconds or math.inf for task in self.slots.running()]
        return max(timeouts, default=0.0) + self.dead_after_seconds

    @property
    def is_hung(self) -> bool:
        """Whether it was blocked for longer at the last look, and has not turned since."""
        return self._hung and self._last_turn == self._seen_at

    def look(self, worker_id: UUID) -> bool:
        """Look at the loop from another thread; tell whether the worker is hung."""
        now, turn = time.monotonic(), self._seen_at
        if turn != self._last_turn:
            self._last_turn, self._blocked_for, self._patience = turn, 0.0, 0.0
        self._blocked_for += min(now - self._looked_at, LOOK_SECONDS_MAX)
        self._looked_at = now
        if self.is_on:
            # The most so far: what blocks it may just have ended, and the loop not turned yet.
            self._patience = max(self._patience, self.patience_seconds)
        was_hung, self._hung = self._hung, self.is_on and self._blocked_for > self._patience
        if self._hung and not was_hung:
            blocked_seconds = round(now - self._seen_at, 3)
            events.emit(events.WorkerHung(worker_id, blocked_seconds, self._running_types()))
        return self._hung

    def _running_types(self) -> tuple[str, ...]:
        return tuple(sorted({task.type for task in self.slots.running()})[:TYPES_NAMED_MAX])

    def relieve(
        self, connection: psycopg.Connection[Any], worker_id: UUID, *, held: Callable[[], Iterable[Claimed]]
    ) -> None:
        """Do the loop's work, on another thread."""
        running = self.slots.unmarked()
        if not self._blocked:
            self._blocked = True
            events.emit(events.LoopBlocked(worker_id, self._running_types()))
        if running:
            tasks, ages = [attempt.task for attempt, _ in running], [age for _, age in running]
            marked = execute.begin_now(connection, tasks, ages=ages)
            for attempt, _ in running:
                attempt.is_marked = attempt.task.id in marked
        unbegun = [task for task, _ in self.slots.take_back()]
        if abandoned := self.abandon():
            _, ghosts = leases(connection, worker_id, held())
            unbegun += [ghost for ghost in ghosts if ghost.lease in abandoned]
        finish.release_now(connection, unbegun, worker_id=worker_id)
