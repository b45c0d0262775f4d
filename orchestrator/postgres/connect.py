"""Open connections, all with the same guards, to whatever a user wrote as a URL.

A black hole with a query outstanding is found by tcp_user_timeout alone, one on an idle LISTEN by keepalives
alone (measured: over 25 s of silence with either, 3 s with both), so every connection has both. Together they find
one within 6 s, less than a sixth of the silence after which a worker is declared dead.
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
    """Turn what a user wrote into a libpq connection string; start the embedded server if it names one.

    Takes postgresql:// and postgres://, SQLAlchemy's postgresql+driver://, libpq's key=value, and embedded:PATH.
    The user's own parameters win over the guards.
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
    """Connect, in autocommit: each statement of ours is its own transaction unless it says otherwise.

    Without `safe_path` the session keeps the search_path of its user, for statements that are not ours.
    Close it with `closing`. In a `with` of its own, psycopg rolls back what a signal has interrupted, and warns when
    the statement still runs.
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
        said = unavailable(info, error)
    # Outside, so that it has no cause: psycopg's error holds the whole connection string, password and all.
    raise said


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
        said = unavailable(info, error)
    raise said


def set_safe_path(connection: psycopg.Connection[Any]) -> None:
    """Let a new session of ours call nothing but PostgreSQL's own functions, operators and types."""
    connection.execute(SAFE_PATH, {"backend": connection.info.backend_pid})


async def set_safe_path_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same on the event loop."""
    await connection.execute(SAFE_PATH, {"backend": connection.info.backend_pid})


def unavailable(info: str, error: psycopg.OperationalError) -> DatabaseUnavailable:
    """Say where we tried to connect and what came back, without the password."""
    # libpq breaks the line before its advice, and indents it.
    said = str(error).strip().replace("\n\t", ". ")
    return DatabaseUnavailable(f"cannot connect to {describe(info)}: {said}")


def describe(info: str) -> str:
    """Name a database for people: host, port and database, never a password."""
    given = conninfo_to_dict(info)
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    port = f":{given['port']}" if given.get("port") else ""
    return f"{host}{port}/{given.get('dbname') or given.get('user') or ''}"


def answers(info: str) -> bool:
    """Ask whether a server answers there, be it with a refusal; not while it starts up or shuts down.

    Without TLS, or a certificate that does not fit would look like silence; so neither user nor database is named.
    """
    place: dict[str, Any] = {name: value for name, value in conninfo_to_dict(info).items() if name in WHERE}
    asked = make_conninfo(user="ping", dbname="ping", sslmode="disable", **place)
    return pq.PGconn.ping(asked.encode()) == pq.Ping.OK


def hang_up(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """End a connection under whoever waits on it, from any thread: the wait ends with an error.

    The kernel finds a peer that is gone. One that acknowledges and never answers (a frozen backend, a paused pooler)
    only we can give up. Not by close(), which would free the descriptor under the waiting thread.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
