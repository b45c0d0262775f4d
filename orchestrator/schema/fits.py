"""Tell whether this version and the database's schema fit together, before a worker touches a task."""

from typing import Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from orchestrator.errors import SchemaError
from orchestrator.postgres import statement

FITS = statement.load(__file__, "fits.sql")

# The schema revision this code needs at least. A newer schema says itself how old a code it bears.
NEEDED = 1


def require(connection: psycopg.Connection[Any]) -> None:
    """Refuse a schema that is missing or too old, and one that has grown away from this version."""
    try:
        with connection.cursor(row_factory=tuple_row) as cursor:
            row = cursor.execute(FITS).fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        row = None
    if row is None:
        raise SchemaError("this database has no orchestrator schema yet; run `orchestrator migrate`")
    revision, oldest_code = row
    if revision < NEEDED:
        raise SchemaError(
            f"the database's schema is at revision {revision:04}; this version needs {NEEDED:04}. "
            "Run `orchestrator migrate`"
        )
    if oldest_code > NEEDED:
        raise SchemaError(
            f"the database's schema is at revision {revision:04} and bears code made for {oldest_code:04} or newer; "
            f"this version was made for {NEEDED:04}. Install a newer pg-orchestrator"
        )
