"""Migrate a database to the schema that this version needs, and check whether it has it.

Only Alembic changes the schema. The scripts are in `migrations/` at the top of the source tree and in
`orchestrator/_migrations` of an installed package.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from psycopg.errors import (
    AmbiguousFunction,
    DependentObjectsStillExist,
    InsufficientPrivilege,
    LockNotAvailable,
    OperationalError,
)
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from orchestrator.errors import SchemaError
from orchestrator.postgres import statement
from orchestrator.schema import engine

SCHEMA = "orchestrator"
OLDEST_SERVER = 15
PACKAGE = Path(__file__).parents[1]


def upgrade(url: str, *, to: str = "head") -> None:
    """Migrate up to a revision, and give the roles their grants. Safe if many processes call it at once."""
    with explained(), engine.connecting(url) as connection, connection.begin():
        steer(connection, to, command.upgrade)


def downgrade(url: str, *, to: str) -> None:
    """Migrate down to `base`: it removes everything, also the tasks. A notice names what is kept."""
    with explained(), engine.connecting(url) as connection, connection.begin():
        steer(connection, to, command.downgrade)


def move(url: str, *, to: str) -> None:
    """Migrate to a revision, up or down."""
    here, _ = state(url)
    (downgrade if goes_down(here, to) else upgrade)(url, to=to)


def goes_down(here: str | None, to: str) -> bool:
    """Return whether the migration goes down, and so removes everything; refuse to undo single revisions."""
    require_known(here)
    if here is None or place(revision(to)) >= place(here):
        return False
    if to != "base":
        raise no_way_back(to)
    return True


def moved(before: str | None, after: str | None) -> str:
    """Return the sentence about a migration that has ended."""
    was = f"was at {before}" if before else "had no schema"
    return f"the database {was} and {f'is at {after}' if after else 'has no schema'} now"


def is_behind(here: str | None) -> bool:
    """Return whether a database at this revision (None: no schema) is older than this version needs."""
    return here is None or place(here) < place(head())


def state(url: str) -> tuple[str | None, str]:
    """Return the revision of the database (None: no schema) and the newest one of this package."""
    with explained(), engine.connecting(url) as connection:
        return current(connection), head()


def script() -> str:
    """Return the whole migration as SQL, for an operator to read or run."""
    out = io.StringIO()
    command.upgrade(alembic_config(out), "head", sql=True)
    return out.getvalue()


def grants() -> str:
    """Return the SQL that gives the roles their rights.

    Current, not frozen in a revision: a role that was missing gets its grants at the next migration.
    """
    return read("roles.sql")


def removal() -> str:
    """Return the SQL that removes everything that migrating made, at the end of a downgrade to `base`."""
    return f"{statement.load(__file__, 'remove.sql', 'objects').decode()}\n\n{schema_removal()}"


def schema_removal() -> str:
    """Return the SQL that removes the version table, the schema and the roles. It keeps what others use."""
    return statement.load(__file__, "remove.sql", "schema").decode()


def read(file: str) -> str:
    return (PACKAGE / "schema" / file).read_text(encoding="utf-8")


def head() -> str:
    """Return the newest revision of this package."""
    found = ScriptDirectory.from_config(alembic_config()).get_current_head()
    if found is None:
        raise SchemaError("this installation has no migrations; install pg-orchestrator again")
    return found


def current(connection: Connection) -> str | None:
    """Return the revision of the database."""
    return MigrationContext.configure(
        connection, opts={"version_table_schema": SCHEMA}
    ).get_current_revision()


def refuse_old_server(number: int, version: str) -> None:
    """Refuse a server below the oldest we support, by its `server_version_num`, before anything is changed."""
    if number < OLDEST_SERVER * 10_000:
        raise SchemaError(
            f"this server is PostgreSQL {version}; orchestrator needs {OLDEST_SERVER} or newer. Nothing was changed."
        )


def require_known(here: str | None) -> None:
    """Refuse to migrate from a revision that this package does not have."""
    if here is not None and here not in chain():
        raise SchemaError(
            f"the database is at revision {here}, which this version does not know; it brings {head()}. "
            "Migrate with the version of pg-orchestrator that made it. Nothing was changed"
        )


@contextmanager
def explained() -> Iterator[None]:
    """Turn a refusal of the server into a sentence that says what to do."""
    try:
        yield
    except DBAPIError as error:
        raise SchemaError(refused(error)) from error


def no_way_back(to: str) -> SchemaError:
    """Return the refusal to undo single revisions."""
    return SchemaError(
        f"a revision is not undone, so the database does not go down to {to}: code of the previous release works with "
        "this schema, too. Only `base` goes down; it removes everything. Nothing was changed"
    )


def refused(error: DBAPIError) -> str:
    # The primary message alone: DETAIL may print a row, and SQLAlchemy's own text prints the statement.
    diagnosis = getattr(error.orig, "diag", None)
    message = (diagnosis and diagnosis.message_primary) or str(error.orig).strip()
    match error.orig:
        case LockNotAvailable():
            return (
                "the migration did not get its locks in time, because a transaction uses these tables; nothing was "
                "changed. End the long ones (pg_stat_activity, xact_start), or run it again"
            )
        case AmbiguousFunction():
            return (
                f"the schema orchestrator has another function with the name of one of ours ({message}); "
                "drop it first. Nothing was changed"
            )
        case DependentObjectsStillExist():
            # Its DETAIL names objects, and no row.
            detail = diagnosis and diagnosis.message_detail
            return f"other objects use ours ({detail or message}); drop them first. Nothing was changed"
        case InsufficientPrivilege():
            return (
                f"PostgreSQL: {message}; nothing was changed. Use the role that owns the schema orchestrator, or one "
                "with the right CREATE on it or, before it exists, on the database"
            )
        case OperationalError(sqlstate=state) if (state or "08").startswith(("08", "57P")):
            return f"PostgreSQL: {message}; the connection is lost. `orchestrator migrate --check` says what is there"
        case _:
            return f"PostgreSQL: {message}; nothing was changed"


def steer(connection: Connection, to: str, go: Callable[[AlembicConfig, str], None]) -> None:
    config = alembic_config()
    config.attributes["connection"] = connection
    go(config, to if to == "base" else revision(to))


def revision(to: str) -> str:
    """Return the full name of a revision; refuse one that this package does not have. `base` stays `base`."""
    if to == "base":
        return to
    try:
        found = ScriptDirectory.from_config(alembic_config()).get_revision(to) if to else None
    except CommandError:
        found = None
    if found is None:
        raise SchemaError(f"there is no revision {to!r}; this version brings {head()!r} as the newest")
    return found.revision


def place(of: str) -> int:
    """Return the place of a revision in the chain; `base` is 0.

    The place of an unknown revision is its number; without a number it comes after the newest.
    """
    known = ["base", *chain()]
    if of in known:
        return known.index(of)
    return int(of) if of.isdecimal() else len(known)


def chain() -> list[str]:
    """Return the revisions of this package, the oldest first."""
    found = ScriptDirectory.from_config(alembic_config()).walk_revisions()
    return [script.revision for script in found][::-1]


def alembic_config(out: io.StringIO | None = None) -> AlembicConfig:
    config = AlembicConfig(output_buffer=out) if out is not None else AlembicConfig()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def scripts() -> Path:
    installed = PACKAGE / "_migrations"
    return installed if installed.is_dir() else PACKAGE.parent / "migrations"
