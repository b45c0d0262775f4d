"""Check that this version and the database fit together, before a worker touches a task.

The schema may be missing, too old, or too new for this version. And the database may be a copy, whose tasks are at home
elsewhere: nothing runs there before an operator resumes it (docs/decisions/0007-a-restored-copy-runs-nothing.md).
"""

from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.errors import DatabaseRestored, SchemaError
from orchestrator.postgres import statement

COMPATIBILITY = statement.load(__file__, "compatibility.sql", "revision")
ORIGINS = statement.load(__file__, "compatibility.sql", "origins")

# The oldest schema revision that this code can use. A newer schema names the oldest code that may use it.
NEEDED = 2


def require(connection: psycopg.Connection[Any]) -> None:
    """Refuse a schema that is missing, too old or too new for this version, and a copy."""
    require_revision(connection)
    if (came_from := origins(connection)) is not None:
        raise DatabaseRestored(came_from)


def require_revision(connection: psycopg.Connection[Any]) -> None:
    """Refuse a schema that is missing, too old or too new: enough for commands that only read."""
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(COMPATIBILITY).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        row = None
    if row is None:
        raise SchemaError("this database has no orchestrator schema yet; run `orchestrator migrate`")
    revision, oldest_code = row
    # A revision without a number belongs to no release: oldest_code alone decides.
    if revision.isdecimal() and int(revision) < NEEDED:
        raise SchemaError(
            f"the database's schema is at revision {revision}; this version needs {NEEDED:04}. "
            "Run `orchestrator migrate`"
        )
    if oldest_code > NEEDED:
        raise SchemaError(
            f"the database's schema is at revision {revision} and bears code made for {oldest_code:04} or newer; "
            f"this version was made for {NEEDED:04}. Install a newer pg-orchestrator"
        )


def origins(connection: psycopg.Connection[Any]) -> str | None:
    """Return where the tasks of this database are at home; None: here."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(ORIGINS).fetchall()
    if any(at_home for at_home, *_ in rows):
        return None
    places = [
        f"they were at home in database {database} since {since:%Y-%m-%d %H:%M %Z}"
        for _, database, since in rows
        if database
    ]
    return ", and ".join(places) or "where they were at home is not on record"
