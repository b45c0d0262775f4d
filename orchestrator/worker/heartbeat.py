"""Stay on the list of the living, and learn what has changed: from a thread of its own with a connection of its own, so
that a handler which blocks the loop does not cost the worker its life.

    beat   every heartbeat_seconds, more often while we lead: written
    look   between two beats, when somebody called or something may have happened: only read

What the database says about us goes to one callback, on this thread. Who is not on the list any more, because its
beat was missed, has lost every lease: it goes on under a new id.

Behind a beat, at times, goes what we have counted (observe/statistics.py).
"""

import os
import platform
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import errors

from orchestrator import events
from orchestrator.config import Config
from orchestrator.execute import Registry, declare
from orchestrator.observe import Statistics
from orchestrator.postgres import statement, transient
from orchestrator.postgres.reconnect import LOOK_SECONDS, NotNow
from orchestrator.postgres.thread_connection import ANSWER_SECONDS, ThreadConnection
from orchestrator.schema import compatibility
from orchestrator.task.claimed import Claimed
from orchestrator.version import __version__
from orchestrator.worker.beat_report import Report, ask, with_leases
from orchestrator.worker.stall import LOOK_SECONDS as STALL_LOOK_SECONDS
from orchestrator.worker.stall import Stall

REGISTER = statement.load(__file__, "register.sql")
DEREGISTER = statement.load(__file__, "deregister.sql")

# How long a start waits for somebody who has the types or queues locked.
START_SECONDS = 30.0
# However often we are called: any login can call us.
LOOKS_APART_SECONDS = 0.05
# What is ours in the database and unknown to us is found so soon, where nothing gave reason to look.
IDLE_LEASES_SECONDS = 30.0
LEASES_SHARE = 0.05


class Heartbeat:
    """The row of one worker, and the thread that keeps it fresh."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        line: ThreadConnection,
        *,
        held: Callable[[], Iterable[Claimed]],
        told: Callable[[Report], None],
        look_seconds: Callable[[], float],
        stall: Stall,
    ) -> None:
        self._config = config
        self._registry = registry
        self._line = line
        self._held = held
        self._told = told
        self._look_seconds = look_seconds
        self._stall = stall
        self._stop = threading.Event()
        self._called = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator heartbeat", daemon=True)
        self._identity = threading.Lock()
        self._registered = self._draining = False
        self._beacon: int | None = None
        self._rings = self._rung = 0  # how many rings were asked for, and sent
        self._wants_beat = True
        self._was_called = False
        self._beat_at = 0.0
        self._leases_at = self._leases_dear_until = 0.0
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
        # Ends: within START_SECONDS a hand's transaction lets go of the rows, or the user is told of it.
        deadline = time.monotonic() + START_SECONDS
        for wait_seconds in transient.waits():
            try:
                declare(connection, self._registry, queues=self._config.queues)
                break
            except transient.IN_THE_WAY:
                if time.monotonic() > deadline:
                    raise
                time.sleep(wait_seconds)
        self._register(connection, self.worker_id)

    def drain(self) -> None:
        """Let the row say that this worker claims no more."""
        self._draining = True
        self.beat()

    def take_beacon(self, beacon: int | None) -> None:
        """Let the row say which beacon is lit, or that none is, and that before anybody looks for it."""
        self._beacon = beacon
        self.beat()

    def beat(self) -> None:
        """Beat now."""
        self._wants_beat = True
        self._called.set()

    def look(self) -> None:
        """Ask now what has changed."""
        self._called.set()

    def ring(self) -> None:
        """Send ourselves a notification; `rang_at` tells when it was sent."""
        self.rang_at = None
        self._rings += 1
        self._called.set()

    @property
    def is_registered(self) -> bool:
        """Whether the schema was found to fit, and our row is written."""
        return self._registered

    @property
    def silent_seconds(self) -> float:
        """For how long the database has not confirmed that we live."""
        return time.monotonic() - self._heard_at

    @property
    def is_cut_off(self) -> bool:
        """Whether that is so long that others may have taken what we hold."""
        return self.silent_seconds > self._config.dead_after_seconds

    def renounce(self) -> tuple[UUID, UUID]:
        """Give up the id, and take a new one: what was held under the old one may be somebody else's."""
        with self._identity:
            old, self.worker_id = self.worker_id, uuid4()
            self._registered, self._beacon = False, None
            self._heard_at = time.monotonic()
            self._statistics.answer_for(self.worker_id)
        self.beat()
        return old, self.worker_id

    def stop(self) -> None:
        """Stop beating, take the row off the list of the living and tell what has been counted."""
        self._statistics.stop()
        self._stop.set()
        self._called.set()
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
            # Nothing is lost but some counts: without a beat the row is declared dead in a while.
            events.emit(events.DutyFailed(duty, type(error).__name__, transient.reason(error)))
        finally:
            self._line.close()

    def _run(self) -> None:
        waits = transient.waits()
        # Ends: stop() is called.
        while not self._stop.is_set():
            if self._stall.look(self.worker_id):
                self._stop.wait(STALL_LOOK_SECONDS)  # hung: it is to be declared dead
                continue
            try:
                with self._line.within(ANSWER_SECONDS):
                    self._beat_or_look()
                    self._statistics.write_if_due(self._line.open())
                waits = transient.waits()
                self._stop.wait(LOOKS_APART_SECONDS)
                self._wait()
            except NotNow:
                self._stop.wait(LOOK_SECONDS)
            except Exception as error:
                if not self._line.failed(error):
                    events.emit(events.DutyFailed("beat", type(error).__name__, transient.reason(error)))
                self._wants_beat = True
                self._stop.wait(min(next(waits), self._config.heartbeat_seconds))

    def _wait(self) -> None:
        """Wait until it is time for a look or a beat, and meanwhile keep an eye on the loop."""
        until = min(self._beat_at, time.monotonic() + self._look_seconds())
        # Ends: until then, or when called.
        while (seconds := until - time.monotonic()) > 0:
            if self._called.wait(min(seconds, STALL_LOOK_SECONDS)):
                return
            self._stall.look(self.worker_id)
            if self._stall.is_on:
                with self._line.within(ANSWER_SECONDS):
                    self._stall.relieve(self._line.open(), self.worker_id, held=self._held)
                # And look: the listener cannot say that its connection, and with it our beacon, is gone.
                until = min(until, time.monotonic() + STALL_LOOK_SECONDS)

    def _beat_or_look(self) -> None:
        if called := self._called.is_set():
            self._called.clear()
        self._was_called = called
        connection = self._line.open()
        with self._identity:
            worker_id, registered = self.worker_id, self._registered
        if not registered:
            self._register(connection, worker_id)
        sent_at = time.monotonic()
        # The wish first, then what it is about: what changes in between is wished for again.
        beats = self._wants_beat or sent_at >= self._beat_at
        self._wants_beat = False
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
            blocked_seconds=self._stall.blocked_seconds,
            rings=rings > self._rung,
            config=self._config,
        )
        self._note_rung(rings)
        with self._identity:
            if worker_id != self.worker_id:
                return  # renounced meanwhile: what was said about the old one is past
            if beats:
                self._heard_at = sent_at
        if report.beacon_lost and not beats:
            self.beat()  # the row must not say any longer that it is lit
        if beats:
            every = self._config.heartbeat_seconds
            if report.view.term is not None:
                # A term must bear one beat that is lost.
                every = min(every, self._config.term_seconds / 3)
            self._beat_at = sent_at + every
        if self._asks_for_leases(sent_at):
            # Somebody's lock on the tasks: the leases are asked after at the next look.
            with suppress(errors.LockNotAvailable):
                report = with_leases(connection, report, self._held())
            self._leases_took(time.monotonic() - sent_at)
        self._told(report)

    def _asks_for_leases(self, now: float) -> bool:
        """Tell whether to ask what has become of the leases: when called, or when something is held, in proportion to
        what it costs (a long transaction of somebody's makes it dear); else at a slow beat."""
        return (
            self._was_called
            or now >= self._leases_at
            or (bool(self._held()) and now >= self._leases_dear_until)
        )

    def _leases_took(self, seconds: float) -> None:
        now = time.monotonic()
        self._leases_at = now + IDLE_LEASES_SECONDS
        self._leases_dear_until = now + seconds / LEASES_SHARE

    def _note_rung(self, rings: int) -> None:
        self._rung = rings
        if rings == self._rings and self.rang_at is None:
            self.rang_at = time.monotonic()

    def _register(self, connection: psycopg.Connection[Any], worker_id: UUID) -> None:
        connection.execute(
            REGISTER,
            {
                "id": worker_id,
                "host": platform.node()[:200],
                "pid": os.getpid(),
                "version": __version__,
                "queues": list(self._config.queues),
                "types": [handler.type for handler in self._registry],
                "capacity": self._config.concurrency,
                "dead_after_seconds": self._config.dead_after_seconds,
            },
        )
        with self._identity:
            self._registered = worker_id == self.worker_id
