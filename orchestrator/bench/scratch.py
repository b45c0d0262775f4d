"""The bench's own database with our tables, for the duration of a block."""

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from orchestrator.bench.signals import Signals
from orchestrator.errors import DatabaseUnavailable, OrchestratorError
from orchestrator.postgres import connect, embedded_stop, statement
from orchestrator.schema import migrate

SQL = statement.sections(__file__, "scratch.sql")
APPLICATION = "orchestrator bench"
PREFIX = "orchestrator_bench_"


class MayNotCreate(OrchestratorError):
    """The role may not create databases."""

    def __init__(self, role: str) -> None:
        super().__init__(
            f"role {role!r} may not create databases on this server, and the bench needs a database of its own; give "
            f"the URL of a role that may, or let a superuser run: ALTER ROLE {role} CREATEDB"
        )


class NotDropped(OrchestratorError):
    """The scratch database still exists."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the scratch database could not be dropped: {reason}. Drop it yourself: DROP DATABASE {name}"
        )


@contextmanager
def database(url: str | None, signals: Signals) -> Iterator[str]:
    """Make a database on the server of a URL, or on a temporary server. Yield its conninfo. Drop it afterwards."""
    if url is not None:
        try:
            with made(connect.conninfo(url, application_name=APPLICATION), signals) as info:
                yield info
        finally:
            embedded_stop.leave(url)
        return
    with TemporaryDirectory(prefix="orchestrator-bench-") as folder:
        own = f"embedded:{Path(folder) / 'server'}"
        try:
            with made(connect.conninfo(own, application_name=APPLICATION), signals) as info:
                yield info
        finally:
            with signals.deferred():
                embedded_stop.leave(own)


@contextmanager
def made(server: str, signals: Signals) -> Iterator[str]:
    """Make the database and its tables. Drop it afterwards, even if sessions are still connected to it."""
    name = f"{PREFIX}{secrets.token_hex(6)}"
    # Outside of the `try`: a server that does not answer raises that error, and there is nothing to drop.
    with closing(connect.open_sync(server)) as connection:
        known = roles(connection)
    try:
        with signals.deferred():
            create(server, name)
        given: dict[str, Any] = conninfo_to_dict(server)
        # Each connection sets an application_name of its own.
        del given["application_name"]
        info = make_conninfo(**{**given, "dbname": name})
        migrate.upgrade(info)
        yield info
    finally:
        with signals.deferred():
            drop(server, name, known)


def create(server: str, name: str) -> None:
    """Make the database."""
    with closing(connect.open_sync(server)) as connection:
        try:
            connection.execute(named("create", name))
        except errors.InsufficientPrivilege:
            raise MayNotCreate(connection.info.user) from None


def drop(server: str, name: str, known: set[str]) -> None:
    """Drop the database, and the roles that did not exist before. If the server refuses, raise an error that names what
    is left. A role belongs to the whole server. It stays if another database uses it by now."""
    try:
        with closing(connect.open_sync(server)) as connection:
            connection.execute(named("drop", name))
            for role in roles(connection) - known:
                with suppress(errors.DependentObjectsStillExist, errors.InsufficientPrivilege):
                    connection.execute(named("drop_role", role))
    except (DatabaseUnavailable, psycopg.Error) as error:
        raise NotDropped(name, str(error)) from None


def roles(connection: psycopg.Connection[Any]) -> set[str]:
    """Return those of our four roles that exist on the server."""
    return {row[0] for row in connection.execute(SQL["roles"]).fetchall()}


def named(section: str, name: str) -> sql.Composed:
    return sql.SQL(SQL[section].decode()).format(sql.Identifier(name))
