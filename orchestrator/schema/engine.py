"""A SQLAlchemy connection for Alembic, opened by the same code as all our other connections.

A migration runs with the rights of an owner, often a superuser. So each of its transactions sets its own search_path,
also behind a pooler, where a session cannot.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Connection, NullPool, create_engine, event

from orchestrator import events
from orchestrator.postgres import connect, statement

SAFE_PATH = statement.load(__file__, "safe_path.sql")


@contextmanager
def connecting(url: str) -> Iterator[Connection]:
    """Open one connection and close it again; no pool, since a migration needs it once."""
    info = connect.conninfo(url, application_name="orchestrator migrate")
    with connect.open_sync(info) as raw:
        raw.autocommit = False
        raw.add_notice_handler(emit_notice)
        # For SQLAlchemy's queries on a new connection; it rolls back afterwards.
        raw.execute(SAFE_PATH)
        engine = create_engine("postgresql+psycopg://", creator=lambda: lend(raw), poolclass=NullPool)
        event.listen(engine, "begin", set_safe_path)
        with engine.connect() as connection:
            yield connection


def set_safe_path(connection: Connection) -> None:
    """Let the transaction that begins use only PostgreSQL's own functions, operators and types."""
    connection.exec_driver_sql(SAFE_PATH.decode())


def emit_notice(notice: psycopg.errors.Diagnostic) -> None:
    """Report a NOTICE of the server, for example that a role is missing."""
    if notice.severity_nonlocalized == "NOTICE":
        events.emit(events.DatabaseNotice(notice.message_primary or ""))


def lend(raw: psycopg.Connection) -> psycopg.Connection:
    return raw
