"""How a command connects to the database: one option, one connection, and a sentence for each error on the way.

    with connected(url, "queues pause", writes=True) as connection:
        operate.pause(connection, …)

`error_messages` words every error that is raised in the block or while connecting, once for all commands.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import click
import psycopg
from psycopg.rows import tuple_row

from orchestrator.config import Config
from orchestrator.errors import OperationRefused
from orchestrator.postgres import connect, embedded_stop, statement
from orchestrator.schema import compatibility

SESSION = statement.load(__file__, "database.sql")

# An operator waits for the answer, and can repeat the command. A forgotten statement would hold back the xmin horizon.
STATEMENT_SECONDS = 60
# An operator's statement gives way to workers: while it waits for a lock, workers would queue behind it.
LOCK_SECONDS = 5

Command = TypeVar("Command", bound=Callable[..., Any])


def database_option(command: Command) -> Command:
    """Give a command the option --url. It is passed as `url`, or None without the option."""
    return click.option("--url", help="The database. Default: ORCHESTRATOR_DATABASE_URL.")(command)


def json_option(command: Command) -> Command:
    """Give a command the option --json. It is passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def reason_option(command: Command) -> Command:
    """Give a command the option --reason. It is passed as `reason`."""
    return click.option("--reason", metavar="TEXT", help="The reason; kept in orchestrator.audit.")(command)


@contextmanager
def connected(
    url: str | None,
    command: str,
    *,
    writes: bool = False,
    checks: bool = True,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Iterator[psycopg.Connection[Any]]:
    """Open a session, in autocommit, for the command of this name, on a database that has our schema.

    A command that `writes` is refused at once on a standby or a read-only session. A restored copy that was not
    resumed is accepted: it can be read, and nothing runs there. Without `checks` the schema is not read: a producer's
    role has no right to read it.
    """
    url = url or Config.load().database_url
    try:
        info = connect.conninfo(url, application_name=f"orchestrator {command}")
        with closing(connect.open_sync(info)) as connection:
            read_only, standby = settle(connection, statement_seconds)
            if checks:
                compatibility.require_revision(connection)
            if writes and read_only:
                raise OperationRefused(takes_no_writes(connect.describe(info), standby=standby))
            yield connection
    finally:
        embedded_stop.leave(url)


def settle(connection: psycopg.Connection[Any], statement_seconds: float) -> tuple[bool, bool]:
    """Set the session's timeouts. Return whether the session is read-only, and whether the server is a standby."""
    given = {
        "backend": connection.info.backend_pid,
        "statement_timeout": f"{round(statement_seconds * 1000)}ms",
        "lock_timeout": f"{LOCK_SECONDS}s",
    }
    with connection.cursor(row_factory=tuple_row) as cursor:
        row = cursor.execute(SESSION, given).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    read_only, standby, settings = row
    if settings is None:
        # Behind a pooler the next transaction may get another server session, which lacks the prepared statement.
        connection.prepare_threshold = None
    return read_only, standby


def takes_no_writes(where: str, *, standby: bool) -> str:
    if standby:
        return f"{where} is a standby, which takes no writes; name the primary (--url)"
    return f"sessions on {where} are read-only (default_transaction_read_only), and this command changes something"
