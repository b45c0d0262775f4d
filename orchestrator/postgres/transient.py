"""The one list of database errors worth trying again, and the one policy of how long to wait between tries.

What is not on the list is a mistake of ours or of the user's, and trying again would only hide it.
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
        "53",  # out of memory, disk or connections: somebody will make room
        "57P01",  # the backend was told to go
        "57P02",  # another backend crashed
        "57P03",  # starting up, shutting down, or in recovery
        "57P05",  # idle session timeout
        "57014",  # statement timeout
        "55P03",  # lock timeout
        "40001",  # serialization failure
        "40P01",  # deadlock
        "25006",  # read-only: an old primary after a failover
        "25P03",  # idle in transaction timeout
    }
)
# A person's lock is in the way, or a hand changes the same rows.
IN_THE_WAY = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
# These leave the connection whole; after any other it is opened again.
CONNECTION_SURVIVES = frozenset({"57014", "55P03", "40001", "40P01"})


def is_transient(error: BaseException) -> bool:
    """Tell whether the same work may succeed later. No SQLSTATE at all means that the connection broke."""
    if isinstance(error, DatabaseUnavailable | PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return isinstance(error, psycopg.Error) and matches(error.sqlstate)
    return error.sqlstate is None or matches(error.sqlstate)


def matches(sqlstate: str | None) -> bool:
    return sqlstate is not None and (sqlstate in TRANSIENT or sqlstate[:2] in TRANSIENT)


def reason(error: BaseException) -> str:
    """Say in one line what went wrong: the server's primary message alone, since DETAIL may print a row."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (said or str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def connection_survives(error: BaseException) -> bool:
    return isinstance(error, psycopg.Error) and error.sqlstate in CONNECTION_SURVIVES


def waits(first_seconds: float = 0.1, longest_seconds: float = 2.5) -> Iterator[float]:
    """Yield for ever how long to wait before each new try: doubling, capped, with jitter.

    The jitter is the whole lower half, so that fifty workers do not come back in step after a restart. Connections
    wait for one another besides (reconnect.py).
    """
    wait = first_seconds
    while True:
        yield wait * random.uniform(0.5, 1.0)  # nosec B311 # noqa: S311 - a jitter is no secret
        wait = min(wait * 2, longest_seconds)
