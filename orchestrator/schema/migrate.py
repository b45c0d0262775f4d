"""Bring a database to the schema this version needs, and tell whether it is there.

Alembic is the one source of change. The scripts lie in `migrations/` at the top of the source tree and in
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
from psycopg.errors import DependentObjectsStillExist, LockNotAvailable
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from orchestrator.errors import SchemaError
from orchestrator.schema import engine

SCHEMA = "orchestrator"
OLDEST_SERVER = 15
PACKAGE = Path(__file__).parents[1]


def upgrade(url: str, *, to: str = "head") -> None:
    """Migrate up to a revision, and give the roles their grants. Safe when many call it at once."""
    with explained(), engine.connecting(url) as connection, connection.begin():
        steer(connection, to, command.upgrade)
        if current(connection) == head():
            # Live, not frozen in a revision: a role that was missing gets its grants the next time.
            run(connection, "roles.sql")


def downgrade(url: str, *, to: str) -> None:
    """Migrate down to a revision; `base` takes everything away, the tasks with it. A notice names what is kept."""
    with explained(), engine.connecting(url) as connection, connection.begin():
        steer(connection, to, command.downgrade)
        # Alembic has written its version table for the last time only now.
        if to == "base":
            run(connection, "remove.sql")


def move(url: str, *, to: str) -> None:
    """Migrate to a revision, up or down as it lies."""
    here, _ = state(url)
    (downgrade if goes_down(here, to) else upgrade)(url, to=to)


def goes_down(here: str | None, to: str) -> bool:
    """Tell whether going there takes something away."""
    return here is not None and revision_number(to) < int(here)


def state(url: str) -> tuple[str | None, str]:
    """Return the revision the database is at (None: nothing there) and the one this package brings."""
    with engine.connecting(url) as connection:
        return current(connection), head()


def script() -> str:
    """Return the whole migration as SQL, to be read or run by hand."""
    out = io.StringIO()
    config = alembic_config(out)
    command.upgrade(config, "head", sql=True)
    roles = read("roles.sql")
    # Before alembic's own COMMIT, so that the script is one transaction.
    body, commit, rest = out.getvalue().rpartition("COMMIT;")
    return f"{body}{roles}\n{commit}{rest}"


def head() -> str:
    """Return the newest revision this package brings."""
    found = ScriptDirectory.from_config(alembic_config()).get_current_head()
    if found is None:
        raise SchemaError("this installation has no migrations; install pg-orchestrator again")
    return found


def current(connection: Connection) -> str | None:
    """Return the revision the database is at."""
    return MigrationContext.configure(
        connection, opts={"version_table_schema": SCHEMA}
    ).get_current_revision()


def refuse_old_server(number: int, version: str) -> None:
    """Refuse a server below the oldest we support, by its `server_version_num`, before anything is changed."""
    if number < OLDEST_SERVER * 10_000:
        raise SchemaError(
            f"this server is PostgreSQL {version}; orchestrator needs {OLDEST_SERVER} or newer. Nothing was changed."
        )


@contextmanager
def explained() -> Iterator[None]:
    """Say what to do about a lock that somebody else holds, which a revision does not wait for for long, and about what
    somebody has built on our tables."""
    try:
        yield
    except DBAPIError as error:
        if isinstance(error.orig, DependentObjectsStillExist):
            raise SchemaError(
                f"other objects use ours ({error.orig.diag.message_detail}); drop them first. Nothing was changed"
            ) from error
        if not isinstance(error.orig, LockNotAvailable):
            raise
        raise SchemaError(
            "the migration did not get its locks in time, because a transaction uses these tables; nothing was "
            "changed. End the long ones (pg_stat_activity, xact_start), or run it again"
        ) from error


def run(connection: Connection, file: str) -> None:
    connection.exec_driver_sql(read(file).replace("%", "%%"))


def read(file: str) -> str:
    return (PACKAGE / "schema" / file).read_text(encoding="utf-8")


def steer(connection: Connection, to: str, go: Callable[[AlembicConfig, str], None]) -> None:
    revision_number(to)
    config = alembic_config()
    config.attributes["connection"] = connection
    go(config, to)


def revision_number(to: str) -> int:
    """Read a revision as a number, refusing one this package does not have; `base` is 0."""
    if to == "base":
        return 0
    if to == "head":
        return int(head())
    try:
        found = ScriptDirectory.from_config(alembic_config()).get_revision(to) if to else None
    except CommandError:
        found = None
    if found is None:
        raise SchemaError(f"there is no revision {to!r}; this version brings {head()!r} as the newest")
    return int(found.revision)


def alembic_config(out: io.StringIO | None = None) -> AlembicConfig:
    config = AlembicConfig(output_buffer=out) if out is not None else AlembicConfig()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    return config


def scripts() -> Path:
    installed = PACKAGE / "_migrations"
    return installed if installed.is_dir() else PACKAGE.parent / "migrations"
