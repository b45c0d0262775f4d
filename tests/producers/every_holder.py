"""Everything that a producer may hold, behind one interface, so that one test covers all of them.

Each kind opens what callers hold, writes a row of the caller's own, commits, rolls back, opens savepoints. The
interface is coroutines for sync and async kinds. Those of the sync kinds await nothing, so `run` drives them without
a loop: Django refuses to work inside a running loop.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import django
import psycopg
import pytest
from django.conf import settings
from django.db import connections, transaction
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

T = TypeVar("T")

# The room's door exports a function of the module's name, which hides the module from `import`.
sending = importlib.import_module("orchestrator.enqueue.send")

COLOURS = pytest.mark.parametrize("colour", ["def", "async"])
OWN_TABLE = "CREATE TABLE public.own (note text)"
OWN_ROW = "INSERT INTO public.own (note) VALUES ('mine')"

if not settings.configured:
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql"},
            "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
        },
        USE_TZ=True,
    )
    django.setup()


class Holding(Protocol):
    """What a caller holds, and what it does with it besides enqueueing."""

    held: Any

    async def execute(self, statement: str) -> None: ...

    async def commit(self) -> None: ...

    async def rollback(self) -> None: ...

    def savepoint(self) -> AbstractAsyncContextManager[Any]: ...


@dataclass
class Threads:
    """A sync kind: how it executes, commits, rolls back and opens a savepoint."""

    held: Any
    does: Callable[[str], object]
    commits: Callable[[], object]
    rolls_back: Callable[[], object]
    saves: Callable[[], Any]

    async def execute(self, statement: str) -> None:
        self.does(statement)

    async def commit(self) -> None:
        self.commits()

    async def rollback(self) -> None:
        self.rolls_back()

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        with self.saves():
            yield


@dataclass
class Loop:
    """An async kind."""

    held: Any
    does: Callable[[str], Any]
    commits: Callable[[], Any]
    rolls_back: Callable[[], Any]
    saves: Callable[[], Any]

    async def execute(self, statement: str) -> None:
        await self.does(statement)

    async def commit(self) -> None:
        await self.commits()

    async def rollback(self) -> None:
        await self.rolls_back()

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        opened: AbstractAsyncContextManager[Any] = self.saves()
        return opened


Kind = Callable[[str], AbstractAsyncContextManager[Holding]]


def of_psycopg(choose: Callable[[psycopg.Connection[Any]], Any], **settings: Any) -> Kind:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Holding]:
        with psycopg.connect(url, **settings) as connection:
            held = choose(connection)
            try:
                yield Threads(
                    held, connection.execute, connection.commit, connection.rollback, connection.transaction
                )
            finally:
                if held is not connection:
                    with suppress(psycopg.Error):
                        held.close()

    return opened


def of_async_psycopg(choose: Callable[[psycopg.AsyncConnection[Any]], Any]) -> Kind:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Holding]:
        async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
            yield Loop(
                choose(connection),
                connection.execute,
                connection.commit,
                connection.rollback,
                connection.transaction,
            )

    return opened


def of_sqlalchemy(driver: str, choose: Callable[[Any], Any]) -> Kind:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Holding]:
        engine = create_engine(driven(url, driver), poolclass=NullPool)
        held = choose(engine)
        try:
            yield Threads(
                held, lambda s: held.execute(text(s)), held.commit, held.rollback, held.begin_nested
            )
        finally:
            held.close()
            engine.dispose()

    return opened


def of_async_sqlalchemy(driver: str, choose: Callable[[Any], Any]) -> Kind:
    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Holding]:
        engine = create_async_engine(driven(url, driver), poolclass=NullPool)
        held = choose(engine)
        if hasattr(held, "start"):  # a connection
            await held.start()
        try:
            yield Loop(held, lambda s: held.execute(text(s)), held.commit, held.rollback, held.begin_nested)
        finally:
            await held.close()
            await engine.dispose()

    return opened


@asynccontextmanager
async def of_django(url: str) -> AsyncIterator[Holding]:
    """The alias, in a transaction that the test ends, like Django's own test cases."""
    with django_on(url):
        transaction.set_autocommit(False)

        def execute(statement: str) -> None:
            with connections["default"].cursor() as cursor:
                cursor.execute(statement)

        yield Threads("default", execute, transaction.commit, transaction.rollback, transaction.atomic)
        transaction.rollback()


@contextmanager
def django_on(url: str) -> Iterator[None]:
    """Set the URL of Django's default database; its connections of this thread are closed before and after."""
    connections.close_all()
    given = conninfo_to_dict(url)
    names = {"NAME": "dbname", "USER": "user", "PASSWORD": "password", "HOST": "host", "PORT": "port"}
    place = connections["default"].settings_dict
    place.update({name: str(given.get(parameter) or "") for name, parameter in names.items()})
    connections.settings["default"].update(place)
    try:
        yield
    finally:
        connections.close_all()


KINDS: dict[str, Kind] = {
    "psycopg Connection": of_psycopg(lambda connection: connection),
    "psycopg Connection with dict rows": of_psycopg(lambda connection: connection, row_factory=dict_row),
    "psycopg Connection of raw cursors": of_psycopg(lambda c: c, cursor_factory=psycopg.RawCursor),
    "psycopg Cursor": of_psycopg(lambda connection: connection.cursor()),
    "psycopg ClientCursor": of_psycopg(psycopg.ClientCursor),
    "psycopg ServerCursor": of_psycopg(lambda connection: connection.cursor("named")),
    "SQLAlchemy Session, psycopg": of_sqlalchemy("psycopg", Session),
    "SQLAlchemy Session, psycopg2": of_sqlalchemy("psycopg2", Session),
    "SQLAlchemy scoped_session": of_sqlalchemy("psycopg", lambda e: scoped_session(sessionmaker(e))),
    "SQLAlchemy Connection, psycopg": of_sqlalchemy("psycopg", lambda e: e.connect()),
    "SQLAlchemy Connection, psycopg2": of_sqlalchemy("psycopg2", lambda e: e.connect()),
    "Django": of_django,
}
ASYNC_KINDS: dict[str, Kind] = {
    "psycopg AsyncConnection": of_async_psycopg(lambda connection: connection),
    "psycopg AsyncCursor": of_async_psycopg(lambda connection: connection.cursor()),
    "SQLAlchemy AsyncSession, psycopg": of_async_sqlalchemy("psycopg", AsyncSession),
    "SQLAlchemy AsyncSession, asyncpg": of_async_sqlalchemy("asyncpg", AsyncSession),
    "SQLAlchemy async_scoped_session": of_async_sqlalchemy(
        "asyncpg", lambda e: async_scoped_session(async_sessionmaker(e), asyncio.current_task)
    ),
    "SQLAlchemy AsyncConnection, psycopg": of_async_sqlalchemy("psycopg", lambda e: e.connect()),
    "SQLAlchemy AsyncConnection, asyncpg": of_async_sqlalchemy("asyncpg", lambda e: e.connect()),
}
ALL_KINDS = KINDS | ASYNC_KINDS


def numbers(count: int) -> Iterator[dict[str, int]]:
    """Yield the arguments of so many tasks."""
    return ({"number": n} for n in range(count))


def asked(colour: str, sender: Any, items: Any = None) -> Any:
    """Enqueue a set, or one task, on the application's own pool, in a colour; a loop's pool is closed with the loop."""
    if colour == "def":
        return sender.enqueue(number=1) if items is None else sender.enqueue_many(items)

    async def main() -> Any:
        try:
            return await (sender.aenqueue(number=1) if items is None else sender.aenqueue_many(items))
        finally:
            await sender.producer.aclose()

    return asyncio.run(main())


async def enqueue(kind: str, sender: Any, /, **arguments: Any) -> Any:
    """Enqueue with the sync or async call of the kind."""
    return await sender.aenqueue(**arguments) if kind in ASYNC_KINDS else sender.enqueue(**arguments)


async def enqueue_many(kind: str, sender: Any, items: Any) -> Any:
    """Enqueue a set with the sync or async call of the kind."""
    return await sender.aenqueue_many(items) if kind in ASYNC_KINDS else sender.enqueue_many(items)


def run(kind: str, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of this kind: on a loop, or without one for a sync kind."""
    if kind in ASYNC_KINDS:
        return asyncio.run(coroutine)
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError(f"{kind} waited for a loop")


def driven(url: str, driver: str) -> str:
    """Return the URL for a driver under SQLAlchemy; asyncpg does not know libpq's parameter `host`."""
    given = conninfo_to_dict(url)
    place = f"{given['user']}@/{given['dbname']}?host={given['host']}&port={given['port']}"
    return f"postgresql+{driver}://{place}"
