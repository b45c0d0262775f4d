"""Databases for tests: a server for the time of a block, a template database with the tables, copies of it."""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import errors, sql
from sqlalchemy import make_url

from orchestrator.errors import OrchestratorError
from orchestrator.postgres import connect, embedded, embedded_stop, statement
from orchestrator.schema import migrate

COPY = statement.load(__file__, "database.sql", "copy")
DROP = statement.load(__file__, "database.sql", "drop")
SETTLE = statement.load(__file__, "database.sql", "set_home")
SESSIONS = statement.load(__file__, "database.sql", "sessions")

# A test's data need not survive a power cut.
SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
# The name contains "test", so the clock may be stopped in these databases.
PREFIX = "orchestrator_test_"
MEMORY = Path("/dev/shm")  # noqa: S108 # nosec B108 - the folder itself gets a random name, and is private
# A container's default of 64 MB is too small.
MEMORY_BYTES_MIN = 4_000_000_000
LOOKS = 50


@contextmanager
def server() -> Iterator[str]:
    """Run an embedded server within the block, in memory if there is room. Yield its superuser's URL."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_BYTES_MIN
    # The path must be short, since it holds the socket.
    with TemporaryDirectory(prefix="orchestrator-test-", dir=MEMORY if roomy else None) as folder:
        try:
            yield embedded.start(Path(folder), settings=SETTINGS)
        finally:
            embedded_stop.leave(f"embedded:{folder}")


@contextmanager
def template(server_url: str) -> Iterator[str]:
    """Make a database with the tables in it, yield its name, and drop it afterwards."""
    with database(server_url, like="template0") as url:
        migrate.upgrade(url)
        yield make_url(url).database or ""


@contextmanager
def copy(server_url: str, like: str) -> Iterator[str]:
    """Make a copy of a template, yield its URL, and drop it afterwards."""
    with database(server_url, like=like) as url:
        with connect.open_sync(connect.conninfo(url)) as connection:
            connection.execute(SETTLE)
        yield url


@contextmanager
def database(server_url: str, *, like: str) -> Iterator[str]:
    """Make a copy of a database, yield its URL, and drop it afterwards, even if sessions still use it."""
    name = f"{PREFIX}{uuid4().hex}"
    with connect.open_sync(connect.conninfo(server_url)) as administrator:
        try:
            administrator.execute(written(COPY, name, like))
        except errors.InsufficientPrivilege as error:
            raise OrchestratorError(
                f"role {administrator.info.user!r} may not create databases on this server, and each test has one of "
                "its own; give the URL of a role that may, or let a superuser say: ALTER ROLE … CREATEDB"
            ) from error
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with connect.open_sync(connect.conninfo(server_url)) as administrator:
            let_sessions_end(administrator, name)
            administrator.execute(written(DROP, name))


def let_sessions_end(administrator: psycopg.Connection[Any], name: str) -> None:
    """Wait for sessions that have just been closed: a DROP that finds a session sleeps for 100 ms, and a look here
    takes 1 ms. A session that remains after LOOKS looks was left open, and FORCE ends it."""
    for _ in range(LOOKS):
        if not administrator.execute(SESSIONS, {"name": name}).fetchall():
            return
        time.sleep(0.001)


def written(query: bytes, *names: str) -> sql.Composed:
    return sql.SQL(query.decode()).format(*map(sql.Identifier, names))
