"""A database of the bench's own, for as long as a block lasts, with the tables in it."""

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
            f"role {role!r} may not create databases on this server, and the bench works in one of its own; give "
            f"the URL of a role that may, or let a superuser say: ALTER ROLE {role} CREATEDB"
        )


class NotDropped(OrchestratorError):
    """The scratch database is still there."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            f"the scratch database could not be dropped: {reason}. When you can: DROP DATABASE {name}"
        )


@contextmanager
def database(url: str | None, signals: Signals) -> Iterator[str]:
    """Make a database on the server of a URL, or on a throw-away one; give its conninfo; drop it afterwards."""
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
    """Make the database and its tables; drop it afterwards, whoever is still connected to it."""
    name = f"{PREFIX}{secrets.token_hex(6)}"
    # Outside: who cannot be reached is said as such, and there is nothing to drop.
    with closing(connect.open_sync(server)) as connection:
        known = roles(connection)
    try:
        with signals.deferred():
            create(server, name)
        given: dict[str, Any] = conninfo_to_dict(server)
        # Each connection says what it is for by a name of its own.
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
    """Drop the database, and the roles that were not known before; where the server does not let us, say what is left.
    A role belongs to the whole server, and stays if another database has come to use it meanwhile."""
    try:
        with closing(connect.open_sync(server)) as connection:
            connection.execute(named("drop", name))
            for role in roles(connection) - known:
                with suppress(errors.DependentObjectsStillExist, errors.InsufficientPrivilege):
                    connection.execute(named("drop_role", role))
    except (DatabaseUnavailable, psycopg.Error) as error:
        raise NotDropped(name, str(error)) from None


def roles(connection: psycopg.Connection[Any]) -> set[str]:
    """Return the roles that migrating makes on a server that has none."""
    return {row[0] for row in connection.execute(SQL["roles"]).fetchall()}


def named(section: str, name: str) -> sql.Composed:
    return sql.SQL(SQL[section].decode()).format(sql.Identifier(name))
