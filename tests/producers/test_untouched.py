"""A caller's objects have the same state after an enqueue as before: settings, cursors, sessions, pending objects."""

import asyncio
import contextlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row
from psycopg.types.numeric import NumericLoader
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

from orchestrator.errors import EnqueueRefused
from tests.producers.every_holder import driven, numbers, sending
from tests.worker.running import value

TASKS = "SELECT count(*) FROM orchestrator.tasks"


class Base(DeclarativeBase):
    """The caller's own models."""


class Own(Base):
    """A row of the caller's."""

    __tablename__ = "own"

    id: Mapped[int] = mapped_column(primary_key=True)
    note: Mapped[str]


@pytest.fixture
def engine(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An engine on the test's database, with the caller's table; sets have chunks of ten."""
    monkeypatch.setattr(sending, "CHUNK_ITEMS", 10)
    engine = create_engine(driven(database_url, "psycopg"), poolclass=NullPool)
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


def everything(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Return all settings of a connection, in Python and in its session."""
    with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        cursor.execute("SELECT name, setting FROM pg_settings WHERE name NOT LIKE 'plpgsql.%'")
        session: dict[str, Any] = dict(cursor.fetchall())
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%orchestrator.enqueue%'"
        )
        prepared = cursor.fetchone()
    if connection.autocommit is False:
        connection.rollback()
    return session | {
        "prepared": prepared,
        "autocommit": connection.autocommit,
        "isolation": connection.isolation_level,
        "read only": connection.read_only,
        "deferrable": connection.deferrable,
        "row factory": connection.row_factory,
        "cursor factory": connection.cursor_factory,
        "threshold": connection.prepare_threshold,
        "status": connection.info.transaction_status,
    }


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_psycopg_connection_keeps_all_its_settings(note: Any, database_url: str, autocommit: bool) -> None:
    """In Python and in the session, after a task, a set, a refused task and a refused set."""
    with psycopg.connect(
        database_url, autocommit=autocommit, row_factory=dict_row, cursor_factory=psycopg.ClientCursor
    ) as mine:
        mine.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        before = everything(mine)
        note.using(mine).enqueue(number=1)
        mine.rollback()
        note.using(mine).enqueue_many(numbers(2_500))
        mine.rollback()
        with pytest.raises(EnqueueRefused):
            note.using(mine, key="k" * 501).enqueue()
        mine.rollback()
        with pytest.raises(EnqueueRefused):
            note.using(mine, key="k" * 501).enqueue_many(numbers(2_500))
        mine.rollback()

        assert before == everything(mine)


def test_ids_are_right_with_a_callers_own_loader_of_numbers(note: Any, database_url: str) -> None:
    """A connection may load bigint as any type."""
    with psycopg.connect(database_url) as mine:
        mine.adapters.register_loader("int8", NumericLoader)
        one = note.using(mine).enqueue()
        many = note.using(mine).enqueue_many(numbers(2))
        cursor = mine.execute("SELECT 1::bigint")

        assert [int] * 3 == [type(handle.id) for handle in (one, *many)]
        assert (Decimal(1),) == cursor.fetchone()


def test_an_open_cursor_keeps_its_place(note: Any, database_url: str) -> None:
    """One on the client, and one on the server, half read."""
    with psycopg.connect(database_url) as mine:
        client = mine.execute("SELECT generate_series(1, 4)")
        server = mine.cursor("named")
        server.execute("SELECT generate_series(1, 4)")
        seen = [client.fetchone(), server.fetchone()]
        note.using(client).enqueue()
        note.using(server).enqueue_many(numbers(3))
        seen += [client.fetchone(), server.fetchone()]
        server.close()

        assert [(1,), (1,), (2,), (2,)] == seen


def test_in_a_pipeline_tasks_are_enqueued_in_its_order(note: Any, database_url: str) -> None:
    """Earlier statements of the pipeline run first."""
    with psycopg.connect(database_url) as mine, mine.pipeline():
        mine.execute("CREATE TABLE public.first AS SELECT 1")
        note.using(mine).enqueue()
        handles = note.using(mine).enqueue_many(numbers(1_500))
        found = mine.execute("SELECT count(*) FROM orchestrator.tasks").fetchone()

        assert (1_501,) == found
        assert 1_500 == len({handle.id for handle in handles})


@pytest.mark.parametrize("many", [3, 2_500])
def test_on_an_autocommit_connection_a_set_is_committed_at_once(
    note: Any, database_url: str, connection: psycopg.Connection, many: int
) -> None:
    """All of it or nothing, also in chunks. Afterwards the connection is idle, and still in autocommit."""
    with psycopg.connect(database_url, autocommit=True) as mine:
        with pytest.raises(EnqueueRefused, match=rf"items\[{many - 1}\]"):
            note.using(mine).enqueue_many(
                note.using(key="k" * 501 if n == many - 1 else None).call(number=n) for n in range(many)
            )
        nothing = value(connection, TASKS)
        note.using(mine).enqueue_many(numbers(many))

        assert (0, many) == (nothing, value(connection, TASKS))
        assert TransactionStatus.IDLE is mine.info.transaction_status
        assert mine.autocommit


def test_a_transaction_that_the_caller_began_stays_the_callers(
    note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """On an autocommit connection, BEGIN is only a statement, and ROLLBACK undoes everything."""
    with psycopg.connect(database_url, autocommit=True) as mine:
        mine.execute("BEGIN")
        note.using(mine).enqueue()
        note.using(mine).enqueue_many(numbers(2_500))
        assert TransactionStatus.INTRANS is mine.info.transaction_status
        mine.execute("ROLLBACK")

    assert 0 == value(connection, TASKS)


def test_a_pending_object_is_neither_flushed_nor_lost(
    note: Any, engine: Any, connection: psycopg.Connection
) -> None:
    """An enqueue uses the session's connection, and leaves new and changed objects for the session's own flush."""
    with Session(engine) as session:
        session.add(kept := Own(note="kept"))
        session.commit()
        kept.note = "changed"
        session.add(pending := Own(note="pending"))
        note.using(session).enqueue()
        note.using(session).enqueue_many(numbers(25))
        states = inspect(pending).pending, kept in session.dirty
        rows = session.connection().execute(text("SELECT note FROM own")).scalars().all()
        session.commit()

    assert (True, True) == states
    assert ["kept"] == rows
    assert [("changed",), ("pending",)] == connection.execute("SELECT note FROM own ORDER BY id").fetchall()
    assert 26 == value(connection, TASKS)


def test_a_refused_set_expires_nothing_in_the_session(note: Any, engine: Any) -> None:
    """A savepoint of the session's own would: its objects would be read again, and pending ones removed."""
    with Session(engine) as session:
        session.add(kept := Own(note="kept"))
        session.flush()
        session.add(pending := Own(note="pending"))
        with pytest.raises(EnqueueRefused):
            note.using(session, key="k" * 501).enqueue_many(numbers(25))

        assert not inspect(kept).expired
        assert "kept" == inspect(kept).dict["note"]
        assert pending in session.new
        assert session.in_transaction()
        assert not session.in_nested_transaction()


def test_a_failed_session_raises_its_own_error(note: Any, engine: Any) -> None:
    """Before anything is sent."""
    with Session(engine) as session:
        session.add(Own(id=1, note="a"))
        session.flush()
        session.expunge_all()
        session.add(Own(id=1, note="b"))
        with contextlib.suppress(SQLAlchemyError):
            session.flush()
        with pytest.raises(SQLAlchemyError, match="rolled back"):
            note.using(session).enqueue()


@pytest.mark.parametrize("option", [{"stream_results": True}, {"yield_per": 1}], ids=str)
def test_a_connection_that_fetches_in_pieces_enqueues_at_once(
    note: Any, engine: Any, connection: psycopg.Connection, option: dict[str, Any]
) -> None:
    """Its server-side cursors are for SELECT only."""
    with engine.connect().execution_options(**option) as mine:
        note.using(mine).enqueue()
        note.using(mine).enqueue_many(numbers(25))
        with pytest.raises(EnqueueRefused):
            note.using(mine, key="k" * 501).enqueue_many(numbers(25))
        assert option.items() <= dict(mine.get_execution_options()).items()
        mine.commit()

    assert 26 == value(connection, TASKS)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2"])
def test_on_sqlalchemys_autocommit_a_set_is_all_or_nothing_too(
    note: Any, engine: Any, database_url: str, connection: psycopg.Connection, driver: str
) -> None:
    """Committed at once, and as a whole."""
    other = create_engine(driven(database_url, driver), isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with other.connect() as mine:
        with pytest.raises(EnqueueRefused, match=r"items\[21\]"):
            note.using(mine).enqueue_many(
                note.using(key="k" * 501 if n == 21 else None).call(number=n) for n in range(25)
            )
        nothing = value(connection, TASKS)
        note.using(mine).enqueue()
        one = value(connection, TASKS)
        note.using(mine).enqueue_many(numbers(25))

        assert (0, 1, 26) == (nothing, one, value(connection, TASKS))
    other.dispose()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_on_an_async_autocommit_connection_a_set_is_all_or_nothing(
    note: Any, database_url: str, connection: psycopg.Connection, driver: str
) -> None:
    """The same on the event loop."""

    async def main() -> tuple[int, int]:
        other = create_async_engine(driven(database_url, driver), isolation_level="AUTOCOMMIT")
        async with other.connect() as mine:
            with pytest.raises(EnqueueRefused, match=r"items\[21\]"):
                await note.using(mine).aenqueue_many(
                    note.using(key="k" * 501 if n == 21 else None).call(number=n) for n in range(25)
                )
            nothing = value(connection, TASKS)
            await note.using(mine).aenqueue_many(numbers(25))
            found = nothing, value(connection, TASKS)
        await other.dispose()
        return found

    assert (0, 25) == asyncio.run(main())
