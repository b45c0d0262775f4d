"""Detect a blocked loop from the heartbeat's thread, and do the loop's work there: release tasks that have not begun
and tasks of claims whose answers are not read, and mark running attempts `running`.

A blocked worker keeps beating, and its running tasks keep their leases, but it does nothing else until the handler
returns control. If the loop is blocked longer than every timeout of its running tasks and `dead_after_seconds`, the
worker is hung: it stops beating, so it is declared dead and other workers get its tasks. `orchestrator worker` then
ends its process (watchdog.py).
"""

import math
import time
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg

from orchestrator import events, execute, finish
from orchestrator.worker.beat_report import leases
from orchestrator.worker.ledger import MARK_AGAIN_SECONDS, Ledger

# How often the loop reports a turn, and checks whether the database has been silent for too long.
WATCH_SECONDS = 0.25
# After so long without a turn the loop counts as blocked: well above the delays of a busy machine.
STALLED_SECONDS = 1.0
LOOK_SECONDS = 0.5
# A look later than this counts nothing: the process itself was stopped, and that is not blocked time.
LOOK_SECONDS_MAX = 2 * LOOK_SECONDS
TYPES_NAMED_MAX = 5


@dataclass(slots=True)
class Stall:
    """The time of the loop's last turn."""

    ledger: Ledger
    dead_after_seconds: float
    _seen_at: float = math.inf
    _blocked: bool = False
    _looked_at: float = 0.0
    # As the looks saw it: the loop's last turn, how long ago that is, and how long it may be.
    _last_turn: float = math.inf
    _blocked_for: float = 0.0
    _patience: float = 0.0
    _hung: bool = False

    def seen(self, worker_id: UUID) -> None:
        """Note a turn of the loop. Called on the loop every WATCH_SECONDS, or as soon after that as it turns."""
        now = time.monotonic()
        if self._seen_at < math.inf:
            events.emit(events.LoopTurned(max(0.0, now - self._seen_at - WATCH_SECONDS)))
        if self._blocked:
            self._blocked = False
            events.emit(events.LoopFree(worker_id, round(now - self._seen_at, 3)))
        self._seen_at = now

    def stop(self) -> None:
        """Stop expecting turns of the loop."""
        self._seen_at = math.inf

    @property
    def lag_seconds(self) -> float:
        """How late the loop is; 0 if no turn is expected."""
        return max(0.0, time.monotonic() - self._seen_at - WATCH_SECONDS)

    @property
    def is_on(self) -> bool:
        """Whether the loop does not turn."""
        return time.monotonic() - self._seen_at > STALLED_SECONDS

    @property
    def blocked_seconds(self) -> float | None:
        """How long the loop has not turned, if it is blocked."""
        return time.monotonic() - self._seen_at if self.is_on else None

    @property
    def patience_seconds(self) -> float:
        """How long the loop may be blocked: longer than every timeout of its running tasks."""
        timeouts = [attempt.task.timeout_seconds or math.inf for attempt in self.ledger.started()]
        return max(timeouts, default=0.0) + self.dead_after_seconds

    @property
    def is_hung(self) -> bool:
        """Whether the last look found it blocked for longer than that, and it has not turned since."""
        return self._hung and self._last_turn == self._seen_at

    def look(self, worker_id: UUID) -> bool:
        """Check the loop from another thread. Return whether the worker is hung."""
        now, turn = time.monotonic(), self._seen_at
        if turn != self._last_turn:
            self._last_turn, self._blocked_for, self._patience = turn, 0.0, 0.0
        # A late look shows that the process was stopped. The loop then gets until the next look to turn.
        if now - self._looked_at <= LOOK_SECONDS_MAX:
            self._blocked_for += now - max(self._looked_at, min(turn, now))
        self._looked_at = now
        if self.is_on:
            # Keep the maximum: the handler that blocks may just have ended before the loop has turned.
            self._patience = max(self._patience, self.patience_seconds)
        was_hung, self._hung = self._hung, self.is_on and self._blocked_for > self._patience
        if self._hung and not was_hung:
            blocked_seconds = round(now - self._seen_at, 3)
            events.emit(events.WorkerHung(worker_id, blocked_seconds, self._running_types()))
        return self._hung

    def _running_types(self) -> tuple[str, ...]:
        return tuple(sorted({attempt.task.type for attempt in self.ledger.started()})[:TYPES_NAMED_MAX])

    def relieve(self, connection: psycopg.Connection[Any], worker_id: UUID) -> None:
        """Do the loop's work on another thread."""
        if not self._blocked:
            self._blocked = True
            events.emit(events.LoopBlocked(worker_id, self._running_types()))
        now = time.monotonic()
        # Only the loop marks an attempt that has not started.
        if ages := {a: now - a.begun_at for a in self.ledger.unmarked() if a.begun_at is not None}:
            marked = execute.begin_now(
                connection, [attempt.task for attempt in ages], ages=list(ages.values())
            )
            for attempt in ages:
                attempt.mark_at = math.inf if attempt.task.id in marked else now + MARK_AGAIN_SECONDS
        waiting = self.ledger.take_line()
        try:
            unbegun = [attempt.task for attempt in waiting]
            if taken := self.ledger.take_claims():
                with self.ledger.look() as held:
                    _, named = leases(connection, worker_id, held)
                unbegun += [task for task in named if task.lease in taken]
            finish.release_now(connection, unbegun, worker_id=worker_id)
        finally:
            # Those that could not be released are ghosts now, and released as such.
            self.ledger.leave(waiting)
