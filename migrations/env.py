"""Run the migrations: one transaction, one at a time, with the version table inside our own schema.

Many processes may call this at once: a transaction-level advisory lock serialises them, and every later one finds
nothing left to do. A role that may not create a schema can migrate one that exists.

`orchestrator migrate` passes its connection in. Alembic's own commands take sqlalchemy.url of their ini, or else
ORCHESTRATOR_DATABASE_URL. Both make the same database, because the grants are made here too.
"""

import io
import sys
from argparse import Namespace
from configparser import InterpolationError
from typing import Any

from alembic import context
from alembic.operations import MigrationScript
from alembic.runtime.migration import MigrationInfo
from alembic.script import Script
from alembic.util import CommandError
from sqlalchemy import Connection, text

from orchestrator import events
from orchestrator.config import Config
from orchestrator.errors import ConfigError, OrchestratorError
from orchestrator.observe import printable
from orchestrator.schema import engine, migrate, tables

SCHEMA = "orchestrator"
# Any constant that other programs are unlikely to use. Every release has the same, or two could migrate at once.
ADVISORY_LOCK = 7_221_480_913_350_201
# The dialect alone, for commands that use no server.
NO_SERVER = "postgresql+psycopg://"


def run() -> None:
    # The command's options are in the context, once there is one.
    configure(url=NO_SERVER)
    asked = context.get_context().opts
    if context.is_offline_mode():
        write_script()
    elif reads_the_scripts_only(asked):
        # Without a database Alembic treats this as --sql, and older versions print a statement.
        configure(url=NO_SERVER, as_sql=True, output_buffer=io.StringIO())
        context.run_migrations()
    elif (connection := context.config.attributes.get("connection")) is not None:
        serve(connection, asked)
    else:
        serve_the_command(asked)


def serve_the_command(asked: dict[str, Any]) -> None:
    """Run Alembic's own command, print what was done, and report an error as one sentence."""
    stop_telling = events.subscribe(print_notice)
    try:
        with migrate.explained(), engine.connecting(database_url()) as connection, connection.begin():
            before = migrate.current(connection)
            serve(connection, asked, print_step)
            after = migrate.current(connection)
    except OrchestratorError as error:
        # Alembic prints only the message of its own errors. No cause: it may quote a secret.
        raise CommandError(str(error)) from None
    finally:
        stop_telling()
    if changes_the_database(asked):
        say(migrate.moved(before, after))


def serve(connection: Connection, asked: dict[str, Any], *passing: Any) -> None:
    """Run the command: migrate to a revision, or read and change nothing."""
    if changes_the_database(asked):
        bring(connection, *passing)
    else:
        configure(connection=connection, dont_mutate=True)
        context.run_migrations()


def bring(connection: Connection, *passing: Any) -> None:
    number, version = connection.execute(
        text("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
    ).one()
    migrate.refuse_old_server(number, version)
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    # Not CREATE SCHEMA IF NOT EXISTS: that needs the right to create even if the schema exists.
    if connection.scalar(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    steps: list[MigrationInfo] = []
    configure(
        connection=connection,
        on_version_apply=(lambda *, step, **_: steps.append(step), *passing),
    )
    migrate.require_known(migrate.current(connection))
    context.run_migrations()
    # A stamp only records a revision; the objects of that revision may be missing.
    if any(step.is_stamp for step in steps):
        return
    if (now := migrate.current(connection)) is None:
        # Without a step there was no schema of ours: what has the names of our tables is another's.
        sql = migrate.removal() if steps else migrate.schema_removal()
        connection.exec_driver_sql(sql.replace("%", "%%"))
    elif not all(step.is_upgrade for step in steps):
        raise migrate.no_way_back(now)
    elif now == migrate.head():
        connection.exec_driver_sql(migrate.grants().replace("%", "%%"))


def write_script() -> None:
    steps: list[tuple[MigrationInfo, set[str]]] = []
    configure(
        url=NO_SERVER,
        literal_binds=True,
        on_version_apply=lambda *, step, heads, **_: steps.append((step, set(heads))),
    )
    with context.begin_transaction():
        context.execute(engine.SAFE_PATH.decode())
        context.execute(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
        context.execute(
            f"DO $$ BEGIN IF to_regnamespace('{SCHEMA}') IS NULL THEN CREATE SCHEMA {SCHEMA}; END IF; END $$"
        )
        context.run_migrations()
        if not steps or any(step.is_stamp for step, _ in steps):
            return
        _, heads = steps[-1]
        if not heads:
            context.get_context().impl.static_output(migrate.removal())
        elif not all(step.is_upgrade for step, _ in steps):
            raise CommandError(str(migrate.no_way_back(*heads)))
        elif migrate.head() in heads:
            context.get_context().impl.static_output(migrate.grants())


def configure(**how: Any) -> None:
    context.configure(
        target_metadata=tables.metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=is_ours,
        compare_type=True,
        process_revision_directives=number_revisions,
        **how,
    )


def changes_the_database(asked: dict[str, Any]) -> bool:
    """Distinguish `upgrade`, `downgrade` and `stamp` from commands that only read: `current`, `check`, `history`."""
    return "destination_rev" in asked


def reads_the_scripts_only(asked: dict[str, Any]) -> bool:
    """Recognise `revision` without --autogenerate and `history` without `current`: they need no database.

    `history` comes here only because the ini lets `revision` come here (revision_environment).
    """
    if (writing := asked.get("revision_context")) is not None:
        return not writing.command_args["autogenerate"]
    given = vars(context.config.cmd_opts or Namespace())
    return "rev_range" in given and not (
        given["indicate_current"] or "current" in (given["rev_range"] or "").split(":")
    )


def number_revisions(_context: Any, _heads: Any, scripts: list[MigrationScript]) -> None:
    """Give a new revision the next number, because a schema names by number the oldest code that may use it."""
    number = f"{migrate.place(migrate.head()) + 1:04}"
    given = context.get_context().opts["revision_context"].command_args["rev_id"]
    if given not in (None, number):
        raise CommandError(f"a revision's id is its number: the next is {number}; leave --rev-id out")
    for script in scripts:
        script.rev_id = number


def database_url() -> str:
    """Return the URL in the ini, which the user names or edits; else the one in the environment."""
    try:
        url = context.config.get_main_option("sqlalchemy.url")
    except InterpolationError:
        # Its message quotes the URL.
        raise ConfigError("sqlalchemy.url cannot be read; in an ini file each % is written %%") from None
    url = url or Config.load().database_url
    if not url:
        raise ConfigError(
            "no database was named: set sqlalchemy.url in the ini file, or ORCHESTRATOR_DATABASE_URL, "
            "to postgresql://user@host/shop"
        )
    return url


def print_step(*, step: MigrationInfo, **_: object) -> None:
    way = "stamped" if step.is_stamp else "up to" if step.is_upgrade else "down from"
    for revision in step.up_revisions:
        if isinstance(revision, Script):
            say(f"{way} {revision.revision}: {revision.doc}")


def print_notice(event: events.Event) -> None:
    if isinstance(event, events.DatabaseNotice):
        print("notice: " + printable(event.message, keeping="\n"), file=sys.stderr)


def say(line: str) -> None:
    """Print a line where Alembic prints; nothing with its --quiet."""
    context.config.print_stdout(line)


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Compare only our schema, and only the root of the tasks: the metadata has no leaves."""
    if kind == "schema":
        return name == SCHEMA
    return kind != "table" or not str(name).startswith(("tasks_live", "tasks_done", "tasks_dead"))


run()
