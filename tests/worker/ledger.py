"""A table of the user's own, and sync and async handlers that write into it and complete their task in the same
transaction."""

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from typing import Any, LiteralString, TypeVar

import psycopg
import pytest

from orchestrator import Context, Orchestrator
from orchestrator.app.task import TaskFunction
from orchestrator.postgres.connections import Connections
from tests.worker.running import value

TABLE: LiteralString = "CREATE TABLE ledger (task_id bigint NOT NULL, attempt integer NOT NULL)"
ENTRY: LiteralString = "INSERT INTO ledger (task_id, attempt) VALUES (%s, %s)"
# A constraint that is checked by the COMMIT alone, and then takes long, or refuses.
SLOW_COMMIT: LiteralString = """
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION slow()
"""
REFUSED_COMMIT: LiteralString = "ALTER TABLE ledger ADD UNIQUE (attempt) DEFERRABLE INITIALLY DEFERRED"

COLOURS = ("async", "def")
both_colours = pytest.mark.parametrize("colour", COLOURS)

Hook = Callable[[Context], Any]
T = TypeVar("T")


def nothing(_context: Context) -> None: ...


def writing(
    app: Orchestrator,
    colour: str,
    *,
    before: Hook = nothing,
    inside: Hook = nothing,
    after: Hook = nothing,
    **options: Any,
) -> TaskFunction[[Context], Any]:
    """Declare a handler that writes an entry for its task in a transaction of its own, and runs this function in
    between."""

    async def on_loop(context: Context) -> Any:
        await done(before(context))
        async with context.transaction() as connection:
            await connection.execute(ENTRY, [context.id, context.attempt])
            await done(inside(context))
        return await done(after(context))

    def in_thread(context: Context) -> Any:
        before(context)
        with context.transaction() as connection:
            connection.execute(ENTRY, [context.id, context.attempt])
            inside(context)
        return after(context)

    return app.task(name="write", **options)(on_loop if colour == "async" else in_thread)


async def done(value: Any) -> Any:
    return await value if isinstance(value, Awaitable) else value


def entries(connection: psycopg.Connection) -> list[tuple[int, int]]:
    """Return the entries of the ledger: tasks, and the attempts that wrote them."""
    rows = connection.execute("SELECT task_id, attempt FROM ledger ORDER BY 1, 2").fetchall()
    return [(int(task_id), int(attempt)) for task_id, attempt in rows]


def one_each(connection: psycopg.Connection, tasks: int) -> bool:
    """Return whether this number of tasks has completed, each with one entry."""
    counts = "SELECT ARRAY[count(*), count(DISTINCT task_id)] FROM ledger"
    completed = "SELECT count(*) FROM orchestrator.tasks WHERE status = 'completed'"
    return [[tasks, tasks], tasks] == [value(connection, counts), value(connection, completed)]


@contextmanager
def led_through(monkeypatch: pytest.MonkeyPatch, url: str) -> Any:
    """Connect the handlers' transactions, and no other session, through another URL."""
    direct = Connections.info

    def info(self: Connections, purpose: str) -> str:
        if purpose != "transactions":
            return direct(self, purpose)
        return psycopg.conninfo.make_conninfo(url, application_name="orchestrator transactions")

    with monkeypatch.context() as patch:
        patch.setattr(Connections, "info", info)
        yield
