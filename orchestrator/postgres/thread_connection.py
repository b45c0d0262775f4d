"""One connection of a thread that reconnects: what session.py is for the event loop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from orchestrator import events
from orchestrator.postgres import connect, transient_errors
from orchestrator.postgres.reconnect import NotNow, Reconnect
from orchestrator.postgres.session import SETTINGS, settle

# Longer than any statement of ours takes; shorter than the silence after which a worker is declared dead.
ANSWER_SECONDS = 10.0


class ThreadConnection:
    """A connection that is opened on first use, and again after a break, when the database can be reached."""

    def __init__(self, info: str, *, purpose: str, reach: Reconnect) -> None:
        self._info = info
        self._purpose = purpose
        self._reach = reach
        self._connection: psycopg.Connection[Any] | None = None
        self._failures = 0

    def open(self) -> psycopg.Connection[Any]:
        """Return the connection. Raises NotNow while another connection is being tried."""
        if self._connection is None or self._connection.closed:
            if not self._reach.may_try():
                raise NotNow
            self._connection = self._opened()
        return self._connection

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Limit the time of the block. After it the connection is hung up, and the block sees a broken connection."""
        timer = threading.Timer(seconds, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            # Joined, so that no timer is left when the worker has ended.
            timer.join()

    def _hang_up(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            connect.hang_up(connection)

    def failed(self, error: Exception) -> bool:
        """Handle an error of the connection's user. Keep the connection if it still works. Close it, and emit
        ConnectionLost, if it broke or leads to a server that is no longer the primary. Return whether the error needs
        no further report."""
        whole = self._connection is not None and not self._connection.closed
        if isinstance(error, NotNow):
            return True
        if whole and (
            transient_errors.connection_survives(error) or not transient_errors.is_transient(error)
        ):
            return False
        self.close()
        self._reach.broke()
        self._failures += 1
        events.emit(events.ConnectionLost(self._purpose, transient_errors.reason(error)))
        return True

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _opened(self) -> psycopg.Connection[Any]:
        try:
            connection = connect.open_sync(self._info)
            try:
                settle(connection, connection.execute(SETTINGS).fetchone())
            except BaseException:
                connection.close()
                raise
        except Exception:
            self._reach.failed()
            raise
        self._reach.succeeded()
        if self._failures:
            events.emit(events.ConnectionRestored(self._purpose, self._failures + 1))
            self._failures = 0
        return connection
