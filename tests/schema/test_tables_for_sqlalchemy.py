"""`orchestrator.schema.tables`: the tables with which users of SQLAlchemy write selects and joins."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Engine, Select, Table, create_engine, func, select
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from orchestrator.schema import tables
from tests.schema.logins import logins

TABLES = list(tables.metadata.tables.values())


class Base(DeclarativeBase):
    """The application's own base class."""


class Customer(Base):
    """A table of the application's."""

    __tablename__ = "customers"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


class Task(Base):
    """A task, for the ORM; the annotations are for a type checker."""

    __table__ = tables.tasks
    __mapper_args__ = {"primary_key": [tables.tasks.c.id]}  # noqa: RUF012 - as SQLAlchemy has it
    id: Mapped[int]
    type: Mapped[str]
    payload: Mapped[dict[str, Any]]
    queue: Mapped[str]


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine of the application's, with one customer and a task for her."""
    engine = create_engine(database_url.replace("postgresql:", "postgresql+psycopg:"))
    Base.metadata.create_all(engine, tables=[Customer.__table__])  # type: ignore[list-item]  # typed as FromClause
    with Session(engine) as session, session.begin():
        session.add(Customer(id=7, name="Ada"))
        session.execute(
            select(func.orchestrator.enqueue("mail.welcome", func.jsonb_build_object("customer", 7)))
        )
    yield engine
    engine.dispose()


def joined() -> Select[tuple[str, str, int]]:
    """Return a join of the application's table with ours."""
    tasks = tables.tasks
    return select(Customer.name, tasks.c.status, tasks.c.id).join(
        tasks, tasks.c.payload["customer"].as_integer() == Customer.id
    )


def test_every_table_is_public() -> None:
    """With its name in the database, and none is missing."""
    assert {f"orchestrator.{table.name}" for table in TABLES} == set(tables.metadata.tables)
    assert [getattr(tables, str(table.name)) for table in TABLES] == TABLES


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_a_table_is_selected_from(engine: Engine, table: Table) -> None:
    """All of its columns."""
    with engine.connect() as connection:
        keys = connection.execute(select(table)).keys()

    assert [column.name for column in table.columns] == list(keys)


def test_a_table_is_joined_with_the_applications_own(engine: Engine) -> None:
    """A payload's value is compared with a column; the results have Python's types."""
    with Session(engine) as session:
        row = session.execute(joined()).one()

    assert ("Ada", "pending", 1) == (row.name, row.status, row.id)


@pytest.mark.usefixtures("engine")
async def test_asyncpg_reads_them_too(database_url: str) -> None:
    """The same statement with another driver, on an event loop."""

    given = conninfo_to_dict(database_url)
    where = {name: given[name] for name in ("host", "port", "user")} | {"database": given["dbname"]}
    asynchronous = create_async_engine("postgresql+asyncpg://", connect_args=where)
    async with asynchronous.connect() as connection:
        row = (await connection.execute(joined())).one()
    await asynchronous.dispose()

    assert ("Ada", "pending", 1) == (row.name, row.status, row.id)


def test_a_reader_may_use_them(engine: Engine, administrator: psycopg.Connection, database_url: str) -> None:
    """A role with `orchestrator_reader` selects; the statement needs no other right."""
    with logins(administrator, database_url) as log_in:
        statement = select(tables.tasks.c.id, tables.tasks.c.status).compile(engine)
        rows = log_in("reader").execute(str(statement).encode()).fetchall()

    assert [(1, "pending")] == rows


def test_a_class_is_mapped_to_tasks(engine: Engine) -> None:
    """`id` stands for the primary key that a partitioned table does not have."""
    with Session(engine) as session:
        task = session.scalars(select(Task).where(Task.type == "mail.welcome")).one()

    assert (1, {"customer": 7}, "default") == (task.id, task.payload, task.queue)


def test_the_application_does_not_migrate_our_tables(engine: Engine) -> None:
    """Its metadata does not contain them, even if a class is mapped to one."""
    assert ["customers"] == list(Base.metadata.tables)
