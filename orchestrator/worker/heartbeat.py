"""Keep the worker's row fresh, and read what has changed. Runs in its own thread with its own connection, so a handler
that blocks the loop does not get the worker declared dead.

    beat   every heartbeat_seconds, more often while this worker leads: writes the row
    look   between two beats, when a part of the worker asks or something may have changed: only reads

The report goes to one callback, on this thread. A worker whose beat was missed is declared dead and has lost every
lease: it goes on under a new id. After some beats it writes the statistics, too (observe/statistics.py).
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import errors

from orchestrator import events
from orchestrator.config import Config
from orchestrator.execute import Registry, declare
from orchestrator.observe import Statistics
from orchestrator.postgres import statement, transient_errors
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow
from orchestrator.postgres.thread_connection import ANSWER_SECONDS, ThreadConnection
from orchestrator.schema import compatibility
from orchestrator.worker.beat_report import Report, ask, with_leases
from orchestrator.worker.ledger import Ledger
from orchestrator.worker.register import register
from orchestrator.worker.stall import LOOK_SECONDS as STALL_LOOK_SECONDS
from orchestrator.worker.stall import Stall

DEREGISTER = statement.load(__file__, "deregister.sql")

# How long a start waits for a transaction that has types or queues locked.
START_SECONDS = 30.0
# The least time between two looks that others ask for, since any login can notify us.
LOOKS_APART_SECONDS = 0.05
# How soon ghosts are found when there was no other reason to look.
IDLE_LEASES_SECONDS = 30.0
LEASES_SHARE = 0.05


class Heartbeat:
    """One worker's row, and the thread that keeps it fresh."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        line: ThreadConnection,
        *,
        ledger: Ledger,
        on_report: Callable[[Report], None],
        look_seconds: Callable[[], float],
        declare_more: Callable[[psycopg.Connection[Any]], None] = lambda _connection: None,
    ) -> None:
        self._config = config
        self._registry = registry
        self._line = line
        self._ledger = ledger
        self._on_report = on_report
        self._look_seconds = look_seconds
        self.stall = Stall(ledger, config.dead_after_seconds)
        self._declare_more = declare_more
        self._stop, self._called, self._hurries = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator heartbeat", daemon=True)
        self._identity = threading.Lock()
        self._registered = self._draining = False
        self._beacon: int | None = None
        self._rings = self._rung = 0  # how many rings were asked for, and sent
        self._wants_beat, self._was_called = True, False
        self._beat_at = self._leases_at = self._leases_costly_until = 0.0
        self._heard_at = time.monotonic()
        self.rang_at: float | None = None
        self.worker_id = uuid4()
        self._statistics = Statistics(every_seconds=config.statistics_seconds)
        self._statistics.answer_for(self.worker_id)

    def start(self) -> None:
        """Check the schema, write the row and the types, and begin to beat. Raises what a user should see."""
        with self._line.within(START_SECONDS + ANSWER_SECONDS):
            self._enrol()
        self._heard_at = time.monotonic()
        self._statistics.start()
        self._thread.start()

    def _enrol(self) -> None:
        connection = self._line.open()
        compatibility.require(connection)
        # Ends: another transaction releases its locks within START_SECONDS, or the user gets the error.
        deadline = time.monotonic() + START_SECONDS
        for wait_seconds in transient_errors.waits():
            try:
                declare(connection, self._registry, queues=self._config.queues)
                self._declare_more(connection)
                break
            except transient_errors.IN_THE_WAY:
                if time.monotonic() > deadline:
                    raise
                time.sleep(wait_seconds)
        self._register(connection, self.worker_id)

    def drain(self) -> None:
        """Write into the row that this worker claims no more."""
        self._draining = True
        self.beat()

    def take_beacon(self, beacon: int | None) -> None:
        """Write into the row which beacon this worker holds, or that it holds none, before other workers check it."""
        self._beacon = beacon
        self.beat()

    def beat(self) -> None:
        """Beat now."""
        self._wants_beat = True
        self._hurry()

    def look(self) -> None:
        """Look now."""
        self._called.set()

    def ring(self) -> None:
        """Send a notification to this worker. `rang_at` is the time when it was sent."""
        self.rang_at = None
        self._rings += 1
        self._hurry()

    def _hurry(self) -> None:
        self._called.set()
        self._hurries.set()

    @property
    def is_registered(self) -> bool:
        """Whether the schema fits and our row is written."""
        return self._registered

    @property
    def silent_seconds(self) -> float:
        """How long the database has not confirmed a beat of ours."""
        return time.monotonic() - self._heard_at

    @property
    def is_cut_off(self) -> bool:
        """Whether that is so long that other workers may have taken our tasks."""
        return self.silent_seconds > self._config.dead_after_seconds

    def renounce(self) -> tuple[UUID, UUID]:
        """Replace the worker id: other workers may have the tasks that were held under the old one."""
        with self._identity:
            old, self.worker_id = self.worker_id, uuid4()
            self._registered, self._beacon = False, None
            self._heard_at = time.monotonic()
            self._statistics.answer_for(self.worker_id)
        self.beat()
        return old, self.worker_id

    def stop(self) -> None:
        """Stop beating, mark the row stopped, and write the statistics."""
        self._statistics.stop()
        self._stop.set()
        self._hurry()
        if self._thread.is_alive():
            self._thread.join()
        duty = "deregister"
        try:
            if self._thread.ident is not None and self._registered:
                with self._line.within(ANSWER_SECONDS):
                    self._line.open().execute(DEREGISTER, {"id": self.worker_id})
                    duty = "statistics"
                    self._statistics.write(self._line.open())
        except Exception as error:
            # Only some statistics are lost: without a beat the row is declared dead later.
            events.emit(events.DutyFailed(duty, type(error).__name__, transient_errors.reason(error)))
        finally:
            self._line.close()

    def _run(self) -> None:
        waits = transient_errors.waits()
        # Ends: stop() is called.
        while not self._stop.is_set():
            if self.stall.look(self.worker_id):
                self._stop.wait(STALL_LOOK_SECONDS)  # the loop hangs, so the worker has to be declared dead
                continue
            try:
                with self._line.within(ANSWER_SECONDS):
                    self._beat_or_look()
                    self._statistics.write_if_due(self._line.open())
                waits = transient_errors.waits()
                self._hurries.wait(LOOKS_APART_SECONDS)
                self._wait()
            except NotNow:
                self._stop.wait(LOOK_SECONDS)
            except Exception as error:
                if not self._line.failed(error):
                    events.emit(
                        events.DutyFailed("beat", type(error).__name__, transient_errors.reason(error))
                    )
                self._wants_beat = True
                self._stop.wait(min(next(waits), self._config.heartbeat_seconds))

    def _wait(self) -> None:
        """Wait until a look or a beat is due, and check the loop meanwhile."""
        until = min(self._beat_at, time.monotonic() + self._look_seconds())
        # Ends: at `until`, or when a part of the worker calls. A look may have cleared the call of stop().
        while (seconds := until - time.monotonic()) > 0 and not self._stop.is_set():
            if self._called.wait(min(seconds, STALL_LOOK_SECONDS)):
                return
            self.stall.look(self.worker_id)
            if self.stall.is_on:
                with self._line.within(ANSWER_SECONDS):
                    self.stall.relieve(self._line.open(), self.worker_id)
                # Also look: the listener is on the blocked loop and cannot report that our beacon is gone.
                until = min(until, time.monotonic() + STALL_LOOK_SECONDS)

    def _beat_or_look(self) -> None:
        self._hurries.clear()
        if called := self._called.is_set():
            self._called.clear()
        self._was_called = called
        connection = self._line.open()
        with self._identity:
            worker_id, registered = self.worker_id, self._registered
        if not registered:
            self._register(connection, worker_id)
        sent_at = time.monotonic()
        # Clear the request first, then read the values: a change in between sets the request again.
        if beats := self._wants_beat:
            self._wants_beat = False
        beats = beats or sent_at >= self._beat_at
        with self._identity:
            if worker_id != self.worker_id:
                return  # renounced meanwhile, and called again
            beacon, rings = self._beacon, self._rings
        report = ask(
            connection,
            worker_id,
            beats=beats,
            draining=self._draining,
            beacon=beacon,
            blocked_seconds=self.stall.blocked_seconds,
            rings=rings > self._rung,
            config=self._config,
        )
        self._note_rung(rings)
        with self._identity:
            if worker_id != self.worker_id:
                return  # renounced meanwhile: the report is about the old id
            if beats:
                self._heard_at = sent_at
        if report.beacon_lost and not beats:
            self.beat()  # the row must no longer name the lost beacon
        if beats:
            every = self._config.heartbeat_seconds
            if report.view.term is not None:
                # A term must outlast one lost beat.
                every = min(every, self._config.term_seconds / 3)
            self._beat_at = sent_at + every
        if self._asks_for_leases(sent_at):
            # A transaction has the tasks locked: the next look asks for the leases.
            with suppress(errors.LockNotAvailable):
                report = with_leases(connection, report, self._ledger)
            self._leases_took(time.monotonic() - sent_at)
        self._on_report(report)

    def _asks_for_leases(self, now: float) -> bool:
        """Tell whether to ask for the state of the leases: when a part of the worker called; while tasks are held, as
        often as its cost allows (a long transaction makes it costly); otherwise every IDLE_LEASES_SECONDS."""
        return (
            self._was_called
            or now >= self._leases_at
            or (not self._ledger.is_empty and now >= self._leases_costly_until)
        )

    def _leases_took(self, seconds: float) -> None:
        now = time.monotonic()
        self._leases_at = now + IDLE_LEASES_SECONDS
        self._leases_costly_until = now + seconds / LEASES_SHARE

    def _note_rung(self, rings: int) -> None:
        self._rung = rings
        if rings == self._rings and self.rang_at is None:
            self.rang_at = time.monotonic()

    def _register(self, connection: psycopg.Connection[Any], worker_id: UUID) -> None:
        register(connection, worker_id, config=self._config, types=self._registry.types)
        with self._identity:
            self._registered = worker_id == self.worker_id
