"""Find out whether statements may be prepared on a new connection. A prepared statement belongs to a server's session.

our own session     it has the pid that was announced at connect: they may
a pooler            each transaction may get another session. A pooler that follows its clients' prepared statements
                    (PgBouncer from 1.22 on, with max_prepared_statements) gives them names of its own: they may.
                    Behind any other: they may not
"""

from typing import Any, TypeGuard

import psycopg
from psycopg import errors, sql

from orchestrator.postgres import connect, statement

MARK = statement.load(__file__, "may_prepare.sql", "mark")
NAME = statement.load(__file__, "may_prepare.sql", "name")
FORGET = statement.load(__file__, "may_prepare.sql", "forget")
# How psycopg's names for prepared statements begin.
PSYCOPG = "_pg3_"


def prepare_if_possible(connection: psycopg.Connection[Any]) -> None:
    """Prepare statements on this new connection if they may be prepared. Sets the safe path, too."""
    if not (connect.set_safe_path(connection) or _is_followed(connection)):
        connection.prepare_threshold = None


async def prepare_if_possible_async(connection: psycopg.AsyncConnection[Any]) -> None:
    """The same on the event loop."""
    if not (await connect.set_safe_path_async(connection) or await _is_followed_async(connection)):
        connection.prepare_threshold = None


def _is_followed(connection: psycopg.Connection[Any]) -> bool:
    try:
        with connection.transaction():
            connection.execute(MARK, prepare=True)
            found = connection.execute(NAME, prepare=False).fetchone()
            if is_left_behind(found):
                connection.execute(forget(found), prepare=False)
    except errors.DuplicatePreparedStatement:  # another client's, in the same session
        return False
    return found is not None and not is_left_behind(found)


async def _is_followed_async(connection: psycopg.AsyncConnection[Any]) -> bool:
    try:
        async with connection.transaction():
            await connection.execute(MARK, prepare=True)
            found = await (await connection.execute(NAME, prepare=False)).fetchone()
            if is_left_behind(found):
                await connection.execute(forget(found), prepare=False)
    except errors.DuplicatePreparedStatement:
        return False
    return found is not None and not is_left_behind(found)


def is_left_behind(found: tuple[Any, ...] | None) -> TypeGuard[tuple[Any, ...]]:
    """Tell whether the server's session has the statement under psycopg's own name. A name of the pooler's stays: the
    pooler would use it again."""
    return found is not None and str(found[0]).startswith(PSYCOPG)


def forget(found: tuple[Any, ...]) -> sql.Composed:
    """Return the statement that leaves the session as it was: its next client may use the same name."""
    return sql.SQL(FORGET.decode()).format(sql.Identifier(found[0]))
