"""What a producer may hold, brought to one question: run this SELECT in your transaction and give me its rows.

psycopg's connections and cursors, SQLAlchemy's sessions and connections, a Django database alias. Nothing is
committed, closed or left in another state. SQLAlchemy and Django are recognised by what the caller has imported,
so that neither is imported for those who hold nothing of theirs. The payload travels as text and the server casts
it, so the driver under them does not matter.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Psycopg:
    """A psycopg connection, whatever its row factory."""

    connection: psycopg.Connection[Any]

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        with self.connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(query, parameters).fetchall()

    def commits_at_once(self) -> bool:
        return (
            self.connection.autocommit and self.connection.info.transaction_status is TransactionStatus.IDLE
        )

    @contextmanager
    def together(self, opener: bytes, parameters: dict[str, Any]) -> Iterator[None]:
        """Hold what follows together: all of it or none."""
        if not self.connection.autocommit:
            # Begin the caller's transaction, if it has not begun: what transaction() begins, it also commits.
            self.rows(opener, parameters)
        with self.connection.transaction():
            yield


@dataclass(frozen=True, slots=True)
class AsyncPsycopg:
    """The same on the event loop."""

    connection: psycopg.AsyncConnection[Any]

    async def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        async with self.connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(query, parameters)
            return await cursor.fetchall()

    def commits_at_once(self) -> bool:
        return (
            self.connection.autocommit and self.connection.info.transaction_status is TransactionStatus.IDLE
        )

    @asynccontextmanager
    async def together(self, opener: bytes, parameters: dict[str, Any]) -> AsyncIterator[None]:
        """The same on the event loop."""
        if not self.connection.autocommit:
            await self.rows(opener, parameters)
        async with self.connection.transaction():
            yield


@dataclass(frozen=True, slots=True)
class Sqlalchemy:
    """A Session or a Connection of SQLAlchemy, whatever driver is under it."""

    held: Any
    text: Any  # sqlalchemy.text

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        return [tuple(row) for row in self.held.execute(self.text(colons(query)), parameters)]

    def commits_at_once(self) -> bool:
        return False

    @contextmanager
    def together(self, _opener: bytes, _parameters: dict[str, Any]) -> Iterator[None]:
        with self.held.begin_nested():
            yield


@dataclass(frozen=True, slots=True)
class AsyncSqlalchemy:
    """An AsyncSession or an AsyncConnection."""

    held: Any
    text: Any

    async def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        return [tuple(row) for row in await self.held.execute(self.text(colons(query)), parameters)]

    def commits_at_once(self) -> bool:
        return False

    @asynccontextmanager
    async def together(self, _opener: bytes, _parameters: dict[str, Any]) -> AsyncIterator[None]:
        async with self.held.begin_nested():
            yield


@dataclass(frozen=True, slots=True)
class Django:
    """A database of Django's, by its alias: the connection of this thread, in its atomic block if it is in one."""

    alias: str
    db: ModuleType

    def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        with self.db.connections[self.alias].cursor() as cursor:
            cursor.execute(query.decode(), parameters)
            return [tuple(row) for row in cursor.fetchall()]

    def commits_at_once(self) -> bool:
        return False

    @contextmanager
    def together(self, _opener: bytes, _parameters: dict[str, Any]) -> Iterator[None]:
        with self.db.transaction.atomic(using=self.alias):
            yield


@dataclass(frozen=True, slots=True)
class AsyncDjango:
    """Django's own way onto the loop: its connections belong to a thread, and asgiref knows to which."""

    inner: Django

    async def rows(self, query: bytes, parameters: dict[str, Any]) -> Rows:
        answer: Rows = await sys.modules["asgiref.sync"].sync_to_async(self.inner.rows)(query, parameters)
        return answer

    def commits_at_once(self) -> bool:
        return False

    @asynccontextmanager
    async def together(self, _opener: bytes, _parameters: dict[str, Any]) -> AsyncIterator[None]:
        raise TypeError(
            "Django has no transactions on the event loop; call enqueue_many in a sync_to_async function"
        )
        yield


Target = Psycopg | Sqlalchemy | Django
AsyncTarget = AsyncPsycopg | AsyncSqlalchemy | AsyncDjango
TAKEN = (
    "a psycopg connection or cursor, a Session, Connection, AsyncSession or AsyncConnection of SQLAlchemy, "
    "or the alias of a Django database"
)


def synchronous(held: object) -> Target:
    """Recognise what a thread holds."""
    found = target_of(held)
    if isinstance(found, AsyncTarget):
        raise TypeError(f"this {type(held).__name__} is asynchronous; use aenqueue")
    return found


def asynchronous(held: object) -> AsyncTarget:
    """Recognise what a coroutine holds."""
    found = target_of(held)
    if isinstance(found, Django):
        return AsyncDjango(found)
    if isinstance(found, Target):
        raise TypeError(
            f"this {type(held).__name__} is synchronous and would block the event loop; use enqueue"
        )
    return found


def target_of(held: object) -> Target | AsyncTarget:
    """Recognise what somebody holds; TypeError says what would do."""
    match held:
        case psycopg.Connection():
            return Psycopg(held)
        case psycopg.AsyncConnection():
            return AsyncPsycopg(held)
        case psycopg.Cursor():
            return Psycopg(held.connection)
        case psycopg.AsyncCursor():
            return AsyncPsycopg(held.connection)
        case str():
            return django(held)
    found = sqlalchemy(held)
    if found is None:
        raise TypeError(f"using() takes {TAKEN}; not {type(held).__name__}")
    return found


def sqlalchemy(held: object) -> Sqlalchemy | AsyncSqlalchemy | None:
    """Recognise SQLAlchemy's objects, if anything of it is loaded in this process."""
    root, orm, aio = (sys.modules.get(f"sqlalchemy{part}") for part in ("", ".orm", ".ext.asyncio"))
    if root is None:
        return None
    if aio is not None:
        if isinstance(held, aio.AsyncSession | aio.AsyncConnection | aio.async_scoped_session):
            return AsyncSqlalchemy(held, root.text)
        if isinstance(held, aio.AsyncEngine | aio.async_sessionmaker):
            raise TypeError(
                f"using() needs a transaction to be part of, and {type(held).__name__} has none; pass {TAKEN}"
            )
    if orm is not None and isinstance(held, orm.Session | orm.scoped_session):
        return Sqlalchemy(held, root.text)
    if isinstance(held, root.Connection):
        return Sqlalchemy(held, root.text)
    return None


def django(alias: str) -> Django:
    db = sys.modules.get("django.db")
    if db is None:
        raise TypeError(f"using({alias!r}) names a Django database, but Django is not loaded in this process")
    if alias not in db.connections:
        raise TypeError(f"Django has no database {alias!r}; its settings know {', '.join(db.connections)}")
    return Django(alias, db)


def colons(query: bytes) -> str:
    """Write psycopg's placeholders the way SQLAlchemy's text() wants them."""
    return query.decode().replace("%(tasks)s", ":tasks")
