"""The part of a worker that stands for the lead, and does the duties while it leads. It has threads of its own, so that
a handler that blocks the loop delays no duty.

    heard() ──► vacant? stand ──► leads: urgent and housekeeping duties, each a thread, until the term is over
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from orchestrator import events
from orchestrator.lead.duty_group import Duty, DutyGroup
from orchestrator.lead.elect import Gone, elect
from orchestrator.lead.fence import Leadership, TermOver
from orchestrator.lead.resign import resign
from orchestrator.postgres import transient_errors
from orchestrator.postgres.thread_connection import ANSWER_SECONDS, ThreadConnection

# How long a beacon must be gone. A worker that lost its LISTEN session reports that, or takes a new one, well before.
BEACON_GRACE_SECONDS = 2.0
# How often a deputy looks for the leader's beacon. A fleet has three deputies; the other workers look at each beat.
WATCH_SECONDS = 2.5
# How often a worker looks while the lead is vacant.
VACANT_SECONDS = 0.5
# A leader without a beacon is missed only when its term is over. So a worker without a beacon leaves the lead to others
# at first: most have one 0.1 s after their start; a worker that never gets one stands after this.
NO_BEACON_SECONDS = 4.0
FOREVER_SECONDS = 3600.0
# A group with nothing to do for so long closes its connection.
IDLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class View:
    """The result of one look at the lead."""

    worker_id: UUID  # the worker that looked
    term: int | None  # the term that it leads in, by this look
    renewed: bool  # whether the look was a beat, which renews the term
    leader_id: UUID | None
    beat_at: datetime | None
    holds: bool  # whether the leader's term runs
    beacon_lost: bool  # whether the leader's beacon is gone
    deputy: bool = False  # whether this worker is a deputy
    has_beacon: bool = True  # whether this worker holds a beacon
    alone: bool = False  # whether at most one worker lives: this one


class Leader:
    """Stands whenever the lead is vacant. Calls `worker_id` at each election, since the id may change."""

    def __init__(
        self,
        line: Callable[[str], ThreadConnection],
        *,
        worker_id: Callable[[], UUID],
        urgent: Sequence[Duty],
        housekeeping: Sequence[Duty],
        term_seconds: float,
        is_idle: Callable[[], bool] = lambda: False,
    ) -> None:
        self._worker_id = worker_id
        self._is_idle = is_idle
        self._alone = False
        self._term_seconds = term_seconds
        self._line = line("lead")
        limit = term_seconds / 2
        self._urgent = DutyGroup(self._line, urgent, limit_seconds=limit, rests=self._rests)
        self._housekeeping = DutyGroup(
            line("housekeeping"), housekeeping, limit_seconds=limit, rests=self._rests
        )
        self._threads = [
            threading.Thread(target=self._lead, name="orchestrator lead", daemon=True),
            threading.Thread(target=self._keep_house, name="orchestrator housekeeping", daemon=True),
        ]
        self._ending = threading.Lock()
        self._changed = threading.Condition()
        self._stopping = False
        self._leadership: Leadership | None = None
        self._trusted_until = 0.0
        self._elected_at = 0.0
        self._vacant = False
        self._free_since: float | None = None
        self._prepared_for: Gone | None = None
        self._beacon_lost: tuple[Gone, float] | None = None
        self._look_seconds = FOREVER_SECONDS

    def start(self) -> None:
        """Start the threads: this worker may stand from now on."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Finish the running duty, and resign. May be called more than once, from several threads."""
        with self._ending:
            self._stop()

    def _stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                # A statement of a duty lasts half a term at the longest.
                thread.join(self._term_seconds)
        try:
            with self._line.within(ANSWER_SECONDS):
                if (leadership := self._leadership) is not None and resign(self._line.open(), leadership):
                    events.emit(events.LeaderResigned(leadership.worker_id, leadership.term))
        except Exception as error:
            # Nothing is lost: the term runs out, since a draining worker does not renew it.
            events.emit(events.DutyFailed("resign", type(error).__name__, transient_errors.reason(error)))
        self._leadership = None
        self._urgent.close()
        self._housekeeping.close()

    @property
    def look_seconds(self) -> float:
        """In how many seconds to look at the lead again."""
        return self._look_seconds

    def heard(self, view: View, *, sent_at: float) -> None:
        """Take in the result of a look. `sent_at`: when we sent it, by our own clock."""
        with self._changed:
            leadership = self._leadership
            # Not while it stops: a look may see its own resignation.
            if leadership is not None and sent_at > self._elected_at and not self._stopping:
                if (view.worker_id, view.term) != (leadership.worker_id, leadership.term):
                    self._step_down(leadership)
                elif view.renewed:
                    # From the moment of sending: our trust ends no later than the term does.
                    self._trusted_until = sent_at + self._term_seconds
            if self._leadership is None and view.term is not None and view.renewed and not self._stopping:
                # We lead and did not know it: the answer to the election was lost, or our own clock was too cautious.
                self._begin_term(
                    Leadership(view.worker_id, view.term), trusted_until=sent_at + self._term_seconds
                )
            self._vacant = self._may_stand(view)
            self._look_seconds = self._next_look(view)
            self._alone = view.alone
            self._changed.notify_all()

    def _may_stand(self, view: View) -> bool:
        """Tell whether the lead is vacant, and whether this worker may take it."""
        if view.term is not None or self._is_held(view):
            self._free_since = None
            return False
        now = time.monotonic()
        self._free_since = self._free_since or now
        return view.has_beacon or now - self._free_since >= NO_BEACON_SECONDS

    def _is_held(self, view: View) -> bool:
        """Tell whether a worker leads, by this look and the ones before."""
        if not (view.holds and view.beacon_lost and view.leader_id is not None and view.beat_at is not None):
            self._beacon_lost = None
            return view.holds
        gone = Gone(view.leader_id, view.beat_at)
        if self._beacon_lost is None or self._beacon_lost[0] != gone:
            self._beacon_lost = (gone, time.monotonic())
        return time.monotonic() - self._beacon_lost[1] < BEACON_GRACE_SECONDS

    def _next_look(self, view: View) -> float:
        if self._free_since is not None:
            return VACANT_SECONDS
        if self._beacon_lost is not None:
            return max(0.05, self._beacon_lost[1] + BEACON_GRACE_SECONDS - time.monotonic())
        return min(self._term_seconds / 3, WATCH_SECONDS) if view.deputy else FOREVER_SECONDS

    def _lead(self) -> None:
        # Ends: stop() is called.
        while not self._stopping:
            leadership = self._believed()
            if leadership is not None:
                until = self._end_of_wait(leadership)
                self._wait(self._step(self._urgent, leadership), until=until)
            elif self._vacant:
                self._stand()
            elif self._beacon_lost is not None:
                self._prepare_takeover(self._beacon_lost[0])
            else:
                # A candidate holds no connection.
                self._urgent.close()
                self._wait(
                    FOREVER_SECONDS,
                    until=lambda: (
                        self._vacant or self._leadership is not None or self._beacon_lost is not None
                    ),
                )

    def _prepare_takeover(self, gone: Gone) -> None:
        """Let the duties look for missing workers from now on: they may be gone together with the leader. A term then
        begins with what the duties have seen: the graces of all beacons run at the same time."""
        if gone != self._prepared_for:
            self._prepared_for = gone
            self._urgent.look()
        self._wait(BEACON_GRACE_SECONDS, until=lambda: self._vacant or self._leadership is not None)

    def _keep_house(self) -> None:
        # Ends: stop() is called.
        while not self._stopping:
            leadership = self._believed()
            if leadership is not None:
                until = self._end_of_wait(leadership)
                seconds = self._step(self._housekeeping, leadership)
                if seconds > IDLE_SECONDS:
                    # It uses one connection of the server less.
                    self._housekeeping.close()
                self._wait(seconds, until=until)
            else:
                self._housekeeping.close()
                self._wait(FOREVER_SECONDS, until=lambda: self._leadership is not None)

    def _end_of_wait(self, leadership: Leadership) -> Callable[[], bool]:
        """Return what ends the wait for the next duty: the end of the term, or of the rest. Asked before the duty: what
        changes meanwhile ends the wait, too."""
        rested = self._rests()
        return lambda: self._leadership != leadership or self._rests() != rested

    def _rests(self) -> bool:
        """Tell whether duties may rest: no other worker lives, and this one holds no task."""
        return self._alone and self._is_idle()

    def _step(self, group: DutyGroup, leadership: Leadership) -> float:
        try:
            return group.step(leadership)
        except TermOver:
            with self._changed:
                self._step_down(leadership)
            return 0.0

    def _stand(self) -> None:
        with self._changed:
            gone = self._beacon_lost[0] if self._beacon_lost is not None else None
        worker_id, sent_at = self._worker_id(), time.monotonic()
        term = None
        try:
            with self._line.within(ANSWER_SECONDS):
                term = elect(
                    self._line.open(), worker_id=worker_id, term_seconds=self._term_seconds, gone=gone
                )
        except Exception as error:
            # A duty still runs, or the database is away: the next look tries again.
            if not self._line.failed(error) and not isinstance(error, transient_errors.IN_THE_WAY):
                events.emit(events.DutyFailed("elect", type(error).__name__, transient_errors.reason(error)))
        with self._changed:
            self._vacant = False
            if term is None:
                return
            self._begin_term(Leadership(worker_id, term), trusted_until=sent_at + self._term_seconds)

    def _begin_term(self, leadership: Leadership, *, trusted_until: float) -> None:
        """Trust that we lead; the caller holds the condition. A beat may report the term before the election does."""
        if self._leadership == leadership:
            return
        self._leadership = leadership
        self._trusted_until = trusted_until
        self._elected_at = time.monotonic()
        self._beacon_lost = None
        self._look_seconds = FOREVER_SECONDS
        self._urgent.begin()
        self._housekeeping.begin()
        self._changed.notify_all()
        events.emit(events.LeaderElected(leadership.worker_id, leadership.term))

    def _believed(self) -> Leadership | None:
        """Return our term, for as long as our own clock trusts it."""
        with self._changed:
            if self._leadership is not None and time.monotonic() >= self._trusted_until:
                self._step_down(self._leadership)
            return self._leadership

    def _step_down(self, leadership: Leadership) -> None:
        """Stop trusting this term; the caller holds the condition."""
        if self._leadership == leadership:
            self._leadership = None
            events.emit(events.LeaderSteppedDown(leadership.worker_id, leadership.term))

    def _wait(self, seconds: float, *, until: Callable[[], object] = lambda: False) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or until(), seconds)
