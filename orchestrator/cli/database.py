"""The way from a command to the database: one option, one connection, and a sentence for all that can be in between.

    with connected(url, "queues pause", writes=True) as connection:
        operate.pause(connection, …)

What is raised in the block, and what cannot be reached, is worded by `error_messages`, once for all commands.
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

# A person waits for it, and may ask again; a statement that is forgotten would hold the horizon back.
STATEMENT_SECONDS = 60
# Who changes things by hand gives way to who works: a queue behind our lock would be a queue of workers.
LOCK_SECONDS = 5

Command = TypeVar("Command", bound=Callable[..., Any])


def database_option(command: Command) -> Command:
    """Give a command the option --url; it comes as `url`, None where it is not given."""
    return click.option("--url", help="The database; else ORCHESTRATOR_DATABASE_URL.")(command)


def json_option(command: Command) -> Command:
    """Give a command the option --json; it comes as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def reason_option(command: Command) -> Command:
    """Give a command the option --reason; it comes as `reason`."""
    return click.option("--reason", metavar="TEXT", help="Why; kept in orchestrator.audit.")(command)


@contextmanager
def connected(
    url: str | None,
    command: str,
    *,
    writes: bool = False,
    checks: bool = True,
    statement_seconds: float = STATEMENT_SECONDS,
) -> Iterator[psycopg.Connection[Any]]:
    """Open a session, in autocommit, for a command of this name, on a database that has our schema.

    Whoever `writes` is refused at once by what takes no writes. A copy that nobody has resumed is let by: it can be
    looked at, and nothing runs there. Without `checks` the schema is not looked at, which a producer may not.
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
    """Bound what a statement may take; tell whether the session takes no writes, and whether it is a standby's."""
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
        # What is prepared behind a pooler is unknown to the session of the next transaction.
        connection.prepare_threshold = None
    return read_only, standby


def takes_no_writes(where: str, *, standby: bool) -> str:
    if standby:
        return f"{where} is a standby, which takes no writes; name the primary (--url)"
    return f"sessions on {where} are read-only (default_transaction_read_only), and this command changes something"
