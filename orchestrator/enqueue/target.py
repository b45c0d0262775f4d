"""Give each thing that a producer may pass one interface: run this SELECT in its transaction, and return the rows.

A producer passes psycopg's connections and cursors, SQLAlchemy's sessions and connections, or a Django database alias.
None of them is committed, closed or left in another state. SQLAlchemy and Django are recognised by the modules that the
caller has imported; so a caller who does not use them does not import them. The payload travels as text and the server
casts it, so the driver under them does not matter.

In a coroutine, psycopg's connections run on the loop; the frameworks run the code for threads in their own way.
"""

import sys

import psycopg

from orchestrator.enqueue.target_django import AsyncDjango, Django
from orchestrator.enqueue.target_psycopg import AsyncPsycopg, Psycopg
from orchestrator.enqueue.target_sqlalchemy import AsyncSqlalchemy, Sqlalchemy
from orchestrator.task.duration import shown

Target = Psycopg | Sqlalchemy | Django
AsyncTarget = AsyncPsycopg | AsyncSqlalchemy | AsyncDjango
TAKEN = (
    "a psycopg connection or cursor, a Session, Connection, AsyncSession or AsyncConnection of SQLAlchemy, "
    "or the alias of a Django database"
)


def synchronous(held: object) -> Target:
    """Recognise what a thread passes."""
    found = target_of(held)
    if isinstance(found, AsyncTarget):
        raise TypeError(f"this {type(held).__name__} is asynchronous; use aenqueue")
    return found


def asynchronous(held: object) -> AsyncTarget:
    """Recognise what a coroutine passes."""
    found = target_of(held)
    if isinstance(found, Django):
        return AsyncDjango(found, sys.modules["asgiref.sync"].sync_to_async)
    if isinstance(found, Target):
        raise TypeError(
            f"this {type(held).__name__} is synchronous and would block the event loop; use enqueue"
        )
    return found


def target_of(held: object) -> Target | AsyncTarget:
    """Recognise what the caller passes. The TypeError names what is possible."""
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
    """Recognise SQLAlchemy's objects, if SQLAlchemy is loaded in this process."""
    root, orm, aio = (sys.modules.get(f"sqlalchemy{part}") for part in ("", ".orm", ".ext.asyncio"))
    if root is None:
        return None
    if isinstance(held, root.Connection) or (
        orm is not None and isinstance(held, orm.Session | orm.scoped_session)
    ):
        return Sqlalchemy(held, root.text)
    if aio is not None and isinstance(held, aio.async_scoped_session):
        return AsyncSqlalchemy(held(), root.text)  # this task's session
    if aio is not None and isinstance(held, aio.AsyncSession | aio.AsyncConnection):
        return AsyncSqlalchemy(held, root.text)
    return None


def django(alias: str) -> Django:
    """Recognise a database of Django's by its alias, if Django is loaded in this process."""
    if "://" in alias:
        # Not repeated: it may hold a password.
        raise TypeError("using() takes a connection or the alias of a Django database, not a URL")
    db = sys.modules.get("django.db")
    if db is None:
        raise TypeError(
            f"using({shown(alias)}) names a Django database, but Django is not loaded in this process"
        )
    if alias not in db.connections:
        raise TypeError(
            f"Django has no database {shown(alias)}; its settings know {', '.join(db.connections)}"
        )
    if (vendor := db.connections[alias].vendor) != "postgresql":
        raise TypeError(f"Django's database {alias!r} is {vendor}; tasks live in PostgreSQL")
    return Django(alias, db)
