"""A SQLAlchemy connection for Alembic, through the same door as every other connection of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy import Connection, NullPool, create_engine

from orchestrator import events
from orchestrator.postgres import connect


@contextmanager
def connecting(url: str) -> Iterator[Connection]:
    """Open one connection and close it again; no pool, since a migration needs it once."""
    info = connect.conninfo(url, application_name="orchestrator migrate")
    with connect.open_sync(info) as raw:
        raw.autocommit = False
        raw.add_notice_handler(tell)
        engine = create_engine("postgresql+psycopg://", creator=lambda: lend(raw), poolclass=NullPool)
        with engine.connect() as connection:
            yield connection


def tell(notice: psycopg.errors.Diagnostic) -> None:
    """Pass on what the server wants a person to know, for instance that a role is missing."""
    if notice.severity_nonlocalized == "NOTICE":
        events.emit(events.DatabaseNotice(notice.message_primary or ""))


def lend(raw: psycopg.Connection) -> psycopg.Connection:
    return raw
