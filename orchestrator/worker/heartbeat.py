"""Stay on the list of the living, from a thread of its own with a connection of its own.

The thread also does what must be done by somebody at a slow beat: take back the tasks of dead workers, and have
tomorrow's leaf ready. What the database says about us comes back to the loop through one callback.
"""

import os
import platform
import threading
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.config import Config
from orchestrator.execute import Registry, declare
from orchestrator.maintain import partitions, recover
from orchestrator.postgres import connect, statement, transient
from orchestrator.postgres.session import SETTINGS
from orchestrator.schema import fits
from orchestrator.version import __version__

REGISTER = statement.load(__file__, "register.sql")
BEAT = statement.load(__file__, "beat.sql")
DEREGISTER = statement.load(__file__, "deregister.sql")

PARTITIONS_EVERY_SECONDS = 3600.0
# How long a start waits for somebody who has the types or queues locked.
START_SECONDS = 30.0
LOCKED = (errors.LockNotAvailable, errors.DeadlockDetected)


class Heartbeat:
    """The row of one worker, and the thread that keeps it fresh."""

    def __init__(
        self, config: Config, registry: Registry, *, declared_dead: Callable[[UUID, UUID], None]
    ) -> None:
        self._info = connect.conninfo(config.database_url, application_name="orchestrator heartbeat")
        self._config = config
        self._registry = registry
        self._declared_dead = declared_dead
        self._connection: psycopg.Connection[Any] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator heartbeat", daemon=True)
        self._state = "running"
        self._leaves_at = 0.0
        self.worker_id = uuid4()

    def start(self) -> None:
        """Check the schema, write the row and the types, and begin to beat. Raises what a user should see."""
        connection = self._open()
        fits.require(connection)
        # Ends: within START_SECONDS a hand's transaction lets go of the rows, or the user is told of it.
        deadline = time.monotonic() + START_SECONDS
        for wait_seconds in transient.waits():
            try:
                declare(connection, self._registry, queues=self._config.queues)
                break
            except LOCKED:
                if time.monotonic() > deadline:
                    raise
                time.sleep(wait_seconds)
        self._register(connection, self.worker_id)
        self._thread.start()

    def drain(self) -> None:
        """Let the row say that this worker claims no more."""
        self._state = "draining"

    def stop(self) -> None:
        """Stop beating and take the row off the list of the living."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        try:
            if self._thread.ident is not None:
                self._open().execute(DEREGISTER, {"id": self.worker_id})
        except Exception as error:
            # Nothing is lost: without a beat the row is declared dead in a while.
            events.emit(events.DutyFailed("deregister", type(error).__name__, transient.reason(error)))
        finally:
            self._close()

    def _run(self) -> None:
        waits = transient.waits()
        tries = 1
        wait_seconds = self._config.heartbeat_seconds
        while not self._stop.wait(wait_seconds):
            try:
                self._beat(self._open())
            except Exception as error:
                self._close()
                tries += 1
                wait_seconds = min(next(waits), self._config.heartbeat_seconds)
                events.emit(events.ConnectionLost("heartbeat", transient.reason(error), wait_seconds))
                continue
            if tries > 1:
                events.emit(events.ConnectionRestored("heartbeat", tries))
            waits, tries = transient.waits(), 1
            wait_seconds = self._config.heartbeat_seconds
            self._attend("recover", self._recover)
            self._attend("partitions", self._make_leaves)

    def _beat(self, connection: psycopg.Connection[Any]) -> None:
        with connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(BEAT, {"id": self.worker_id, "state": self._state})
            alive = cursor.fetchone() is not None
        if not alive:
            old, new = self.worker_id, uuid4()
            self._register(connection, new)
            # Only now: should the answer have been lost, the next beat makes another row, and this one dies.
            self.worker_id = new
            self._declared_dead(old, new)

    def _attend(self, duty: str, work: Callable[[psycopg.Connection[Any]], None]) -> None:
        try:
            work(self._open())
        except Exception as error:
            # A duty must not cost the worker its beat, nor the other duties their turn.
            if not transient.connection_survives(error):
                self._close()
            events.emit(events.DutyFailed(duty, type(error).__name__, transient.reason(error)))

    def _recover(self, connection: psycopg.Connection[Any]) -> None:
        # Ends: each round takes a full batch of a dead worker's tasks away, and the beat comes first.
        deadline = time.monotonic() + self._config.heartbeat_seconds / 2
        while recover(connection, dead_after_seconds=self._config.dead_after_seconds).may_be_more:
            if time.monotonic() > deadline:
                return

    def _make_leaves(self, connection: psycopg.Connection[Any]) -> None:
        if time.monotonic() >= self._leaves_at:
            partitions(connection)
            self._leaves_at = time.monotonic() + PARTITIONS_EVERY_SECONDS

    def _register(self, connection: psycopg.Connection[Any], worker_id: UUID) -> None:
        connection.execute(
            REGISTER,
            {
                "id": worker_id,
                "host": platform.node()[:200],
                "pid": os.getpid(),
                "version": __version__,
                "queues": list(self._config.queues),
                "capacity": self._config.concurrency,
            },
        )

    def _open(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = connect.open_sync(self._info)
            self._connection.execute(SETTINGS)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
