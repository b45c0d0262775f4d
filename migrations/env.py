"""Run the migrations: one transaction, one at a time, with the version table inside our own schema.

Ten processes may call this at once: a transaction-level advisory lock makes them take turns, and whoever comes
second finds nothing left to do. A role that may not create a schema can migrate one that exists.
`orchestrator migrate` passes its connection in; the bare `alembic` command takes ORCHESTRATOR_DATABASE_URL.
"""

from alembic import context
from sqlalchemy import Connection, text

from orchestrator.config import Config
from orchestrator.schema import engine, migrate, tables

SCHEMA = "orchestrator"
# Any constant nobody else is likely to use; the same in every release, or two releases could migrate at once.
ADVISORY_LOCK = 7_221_480_913_350_201


def run() -> None:
    if context.is_offline_mode():
        write_script()
        return
    connection = context.config.attributes.get("connection")
    if connection is not None:
        bring(connection)
        return
    with engine.connecting(Config.load().database_url) as own, own.begin():
        bring(own)


def bring(connection: Connection) -> None:
    number, version = connection.execute(
        text("SELECT current_setting('server_version_num')::int, current_setting('server_version')")
    ).one()
    migrate.refuse_old_server(number, version)
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    # Not CREATE SCHEMA IF NOT EXISTS: that wants the right to create even when there is nothing to create.
    if connection.scalar(text("SELECT to_regnamespace(:name) IS NULL"), {"name": SCHEMA}):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    configure(connection=connection)
    context.run_migrations()


def write_script() -> None:
    configure(url="postgresql+psycopg://", literal_binds=True)
    with context.begin_transaction():
        context.execute(engine.SAFE_PATH.decode())
        context.execute(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
        context.execute(
            f"DO $$ BEGIN IF to_regnamespace('{SCHEMA}') IS NULL THEN CREATE SCHEMA {SCHEMA}; END IF; END $$"
        )
        context.run_migrations()


def configure(**how: object) -> None:
    context.configure(
        target_metadata=tables.metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=is_ours,
        compare_type=True,
        **how,  # type: ignore[arg-type]  # alembic's own keywords, passed through
    )


def is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """Compare our schema alone, and of the tasks only the root: the leaves are in no metadata."""
    if kind == "schema":
        return name == SCHEMA
    return kind != "table" or not str(name).startswith(("tasks_live", "tasks_done", "tasks_dead"))


run()
