"""Open connections to any form of database URL, all with the same guards.

A peer that vanishes during a query is found only by tcp_user_timeout, and one that vanishes on an idle LISTEN only by
keepalives (measured: over 25 s of silence with either alone, 3 s with both). So every connection has both. Together
they find it within 6 s, less than a sixth of the silence after which a worker is declared dead.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator import database_url, forks
from orchestrator.errors import ConfigError, DatabaseUnavailable
from orchestrator.postgres import embedded, statement

SAFE_PATH = statement.load(__file__, "safe_path.sql")

GUARDS: dict[str, Any] = {
    "connect_timeout": 10,
    "tcp_user_timeout": 6_000,  # milliseconds
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
}
# The parameters that say where a server is.
WHERE = frozenset({"host", "hostaddr", "port", "service", "connect_timeout"})

NO_URL = (
    "no database was named: give its URL (--url), or set ORCHESTRATOR_DATABASE_URL, to postgresql://user@host/shop. "
    "Without a server, install pg-orchestrator[embedded]: `orchestrator dev MODULE:APP` starts one in a folder, "
    "makes the tables and runs a worker; embedded:./pgdata is the URL of such a server"
)


def conninfo(url: str, *, application_name: str = "orchestrator") -> str:
    """Turn a URL into a libpq connection string. For an embedded: URL, start the server.

    Takes postgresql:// and postgres://, SQLAlchemy's postgresql+driver://, libpq's key=value, and embedded:PATH.
    The URL's parameters override the guards.
    """
    if not url:
        raise ConfigError(NO_URL)
    if url.startswith("embedded:"):
        path = url.removeprefix("embedded:")
        if not path:
            raise ConfigError("embedded: needs a folder, for example embedded:./pgdata")
        url = embedded.start(Path(path).expanduser().resolve())
    given = database_url.read(url, source="the database URL (--url, or an argument)")
    database_url.check_environment(given)
    return make_conninfo(**{"application_name": application_name, **GUARDS, **given})


def open_sync(info: str, *, safe_path: bool = True) -> psycopg.Connection[Any]:
    """Connect, in autocommit: each statement is its own transaction unless the caller opens one.

    Without `safe_path` the session keeps its user's search_path, for statements that are not ours. Close the connection
    with `closing`: as a context manager itself, psycopg's connection rolls back after a signal, and warns when the
    statement still runs.
    """
    try:
        connection = forks.keep(psycopg.connect(info, autocommit=True))
        try:
            if safe_path:
                set_safe_path(connection)
        except BaseException:
            connection.close()
            raise
        return connection
    except psycopg.OperationalError as error:
        refusal = unavailable(info, error)
    # Raised outside `except`, so that it has no cause: psycopg's error holds the connection string with the password.
    raise refusal


async def open_async(info: str, *, safe_path: bool = True) -> psycopg.AsyncConnection[Any]:
    """The same on the event loop."""
    try:
        connection = forks.keep(await psycopg.AsyncConnection.connect(info, autocommit=True))
        try:
            if safe_path:
                await set_safe_path_async(connection)
        except BaseException:
            await connection.close()
            raise
        return connection
    except psycopg.OperationalError as error:
        refusal = unavailable(info, error)
    raise refusal


def set_safe_path(connection: psycopg.Connection[Any]) -> bool:
    """Limit a new session to PostgreSQL's own functions, operators and types. Return False behind a pooler: its
    sessions are not ours."""
    return connection.execute(SAFE_PATH, {"backend": connection.info.backend_pid}).rowcount == 1


async def set_safe_path_async(connection: psycopg.AsyncConnection[Any]) -> bool:
    """The same on the event loop."""
    return (await connection.execute(SAFE_PATH, {"backend": connection.info.backend_pid})).rowcount == 1


def unavailable(info: str, error: psycopg.OperationalError) -> DatabaseUnavailable:
    """Return the error with the address and the server's answer, without the password."""
    # libpq breaks the line before its advice, and indents it.
    refusal = str(error).strip().replace("\n\t", ". ")
    return DatabaseUnavailable(f"cannot connect to {describe(info)}: {refusal}")


def describe(info: str) -> str:
    """Name a database for people: host, port and database, never a password."""
    given = conninfo_to_dict(info)
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    port = f":{given['port']}" if given.get("port") else ""
    return f"{host}{port}/{given.get('dbname') or given.get('user') or ''}"


def answers(info: str) -> bool:
    """Return whether a server answers there; a refusal counts, a server that starts up or shuts down does not.

    The ping uses no TLS: a wrong certificate would look like silence. So it sends neither the user nor the database.
    """
    place: dict[str, Any] = {name: value for name, value in conninfo_to_dict(info).items() if name in WHERE}
    asked = make_conninfo(user="ping", dbname="ping", sslmode="disable", **place)
    return pq.PGconn.ping(asked.encode()) == pq.Ping.OK


def hang_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End a connection from any thread. A thread that waits on it gets an error.

    The kernel detects a peer that is gone. A peer that acknowledges and never answers (a frozen backend, a paused
    pooler) must be detected here. close() cannot be used: it would free the descriptor under the waiting thread.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
