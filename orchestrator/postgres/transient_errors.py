"""The only list of transient database errors, and the only policy of how long to wait between tries.

An error that is not on the list is a mistake in our code or the user's. A retry would only hide it.
"""

import random
from collections.abc import Iterator

import psycopg
from psycopg import errors
from psycopg_pool import PoolTimeout

from orchestrator.errors import DatabaseUnavailable

# By SQLSTATE; two characters name a whole class.
TRANSIENT = frozenset(
    {
        "08",  # connection exception
        "53",  # out of memory, disk or connections: these may become free
        "57P01",  # the backend was terminated
        "57P02",  # another backend crashed
        "57P03",  # starting up, shutting down, or in recovery
        "57P05",  # idle session timeout
        "57014",  # statement timeout
        "55P03",  # lock timeout
        "40001",  # serialization failure
        "40P01",  # deadlock
        "25006",  # read-only: an old primary after a failover
        "25P03",  # idle in transaction timeout
        "25P04",  # transaction timeout
    }
)
# An operator's statement holds a lock, or changes the same rows.
IN_THE_WAY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
# After these the connection still works. After any other it is opened again.
CONNECTION_SURVIVES = frozenset({"57014", "55P03", "40001", "40P01"})


def is_transient(error: BaseException) -> bool:
    """Return whether the same work may succeed later. An error without SQLSTATE means that the connection broke."""
    if isinstance(error, DatabaseUnavailable | PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return isinstance(error, psycopg.Error) and matches(error.sqlstate)
    return error.sqlstate is None or matches(error.sqlstate)


def matches(sqlstate: str | None) -> bool:
    return sqlstate is not None and (sqlstate in TRANSIENT or sqlstate[:2] in TRANSIENT)


def reason(error: BaseException) -> str:
    """Return the error as one line: only the server's primary message, since DETAIL may print a row."""
    message = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (message or str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def connection_survives(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate in CONNECTION_SURVIVES


def waits(first_seconds: float = 0.1, longest_seconds: float = 2.5) -> Iterator[float]:
    """Yield for ever how long to wait before each new try: doubling, capped, with jitter.

    The jitter covers the lower half of each wait, so that fifty workers do not reconnect in step after a restart. In
    addition, the connections of a worker wait for one another (reconnect.py).
    """
    wait = first_seconds
    while True:
        yield wait * random.uniform(0.5, 1.0)  # nosec B311 # noqa: S311 - a jitter is no secret
        wait = min(wait * 2, longest_seconds)
