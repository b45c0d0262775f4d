"""Connections that break at the worst moment: a call whose commit is uncertain raises InDoubt, and no other call
does."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import OperationalError as DjangoOperationalError
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from orchestrator import Orchestrator
from orchestrator.errors import DatabaseUnavailable, EnqueueInDoubt
from tests.producers.every_holder import (
    ALL_KINDS,
    COLOURS,
    OWN_ROW,
    asked,
    django_on,
    driven,
    enqueue,
    enqueue_many,
    numbers,
    run,
    sending,
)
from tests.proxy import Proxy
from tests.worker.running import value

TASKS = "SELECT count(*) FROM orchestrator.tasks"


@pytest.fixture
def proxy(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy to the test's database; sets have chunks of ten."""
    monkeypatch.setattr(sending, "CHUNK_ITEMS", 10)
    with Proxy(database_url) as proxy:
        yield proxy


@pytest.fixture
def far(proxy: Proxy) -> Iterator[Any]:
    """A task of an application whose own pool connects through the proxy."""
    app = Orchestrator(proxy.url, pool_timeout_seconds=5.0)

    @app.task(name="far")
    def far(number: int = 0) -> None: ...

    yield far
    app.close()


@COLOURS
@pytest.mark.parametrize("many", [0, 3])
def test_a_lost_answer_raises_in_doubt_and_the_task_exists(
    colour: str, many: int, far: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """Never a failure, because the server has committed."""
    proxy.cut_after(b"orchestrator.enqueue")

    with pytest.raises(EnqueueInDoubt, match="may be enqueued or not"):
        asked(colour, far.using(), numbers(many) if many else None)

    assert (many or 1) == value(connection, TASKS)


@COLOURS
def test_with_a_key_a_repeated_enqueue_is_safe_and_returns_the_task(
    colour: str, far: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """The same task, not created by the second time."""
    proxy.cut_after(b"orchestrator.enqueue")

    with pytest.raises(EnqueueInDoubt, match="With a key, enqueue again"):
        asked(colour, far.using(key="once"))
    again = asked(colour, far.using(key="once"))

    assert (False, value(connection, "SELECT id FROM orchestrator.tasks")) == (again.created, again.id)


@COLOURS
def test_a_call_that_never_reached_the_server_is_in_doubt_too(
    colour: str, far: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """The caller cannot know the difference. With a key, a second call creates the task."""
    proxy.cut_before(b"orchestrator.enqueue")

    with pytest.raises(EnqueueInDoubt):
        asked(colour, far.using(key="once"))
    assert 0 == value(connection, TASKS)

    assert asked(colour, far.using(key="once")).created


@COLOURS
def test_a_sets_lost_commit_is_in_doubt(
    colour: str, far: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """A set of several chunks: its COMMIT succeeded, and the answer was lost."""
    proxy.cut_after(b"COMMIT")

    with pytest.raises(EnqueueInDoubt):
        asked(colour, far.using(), numbers(25))

    assert 25 == value(connection, TASKS)


@COLOURS
@pytest.mark.parametrize("moment", [b"BEGIN", b'"number": 15', b'"number": 24'], ids=str)
def test_a_set_that_broke_before_its_commit_does_not_exist(
    colour: str, moment: bytes, far: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """The error says so, so the caller need not check."""
    proxy.cut_after(moment)

    with pytest.raises(DatabaseUnavailable, match="nothing of it was enqueued; try again"):
        asked(colour, far.using(), numbers(25))

    assert 0 == value(connection, TASKS)


@pytest.mark.usefixtures("own_table")
@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("many", [0, 25])
@pytest.mark.parametrize("cut", [Proxy.cut_before, Proxy.cut_after])
def test_in_their_transaction_the_drivers_own_error_comes_through(
    kind: str,
    many: int,
    cut: Callable[[Proxy, bytes], None],
    note: Any,
    proxy: Proxy,
    connection: psycopg.Connection,
) -> None:
    """The caller has not committed, so there is no doubt, and the caller's code knows its driver's errors."""

    async def main() -> BaseException:
        try:
            async with ALL_KINDS[kind](proxy.url) as holding:
                await holding.execute(OWN_ROW)
                cut(proxy, b"\x22number\x22: 15" if many else b"\x22number\x22: 1}")
                if many:
                    await enqueue_many(kind, note.using(holding.held), numbers(many))
                else:
                    await enqueue(kind, note.using(holding.held), number=1)
        except Exception as error:
            return error
        raise AssertionError("the connection broke, and nobody said so")

    error = run(kind, main())

    assert isinstance(error, psycopg.OperationalError | DBAPIError | DjangoOperationalError), repr(error)
    assert 0 == value(connection, "SELECT count(*) FROM public.own")
    assert 0 == value(connection, TASKS)


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
@pytest.mark.parametrize("many", [0, 25])
def test_on_sqlalchemys_autocommit_a_lost_answer_is_in_doubt(
    driver: str, many: int, note: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """Each statement is a transaction of its own there, and a set is one of ours."""
    url = driven(proxy.url, driver)
    last_output = b"COMMIT" if many else b"orchestrator.enqueue"

    async def on_loop() -> None:
        engine = create_async_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        async with engine.connect() as mine:
            proxy.cut_after(last_output)
            sender = note.using(mine)
            with pytest.raises(EnqueueInDoubt):
                await (sender.aenqueue_many(numbers(many)) if many else sender.aenqueue())
        await engine.dispose()

    def in_thread() -> None:
        engine = create_engine(url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as mine:
            proxy.cut_after(last_output)
            sender = note.using(mine)
            with pytest.raises(EnqueueInDoubt):
                sender.enqueue_many(numbers(many)) if many else sender.enqueue()
        engine.dispose()

    if driver == "asyncpg":
        asyncio.run(on_loop())
    else:
        in_thread()

    assert (many or 1) == value(connection, TASKS)


@pytest.mark.parametrize("many", [0, 25])
def test_in_djangos_autocommit_a_lost_answer_is_in_doubt(
    many: int, note: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """Outside of atomic."""
    proxy.cut_after(b"COMMIT" if many else b"orchestrator.enqueue")

    with django_on(proxy.url), pytest.raises(EnqueueInDoubt):
        note.using("default").enqueue_many(numbers(many)) if many else note.using("default").enqueue()

    assert (many or 1) == value(connection, TASKS)


@pytest.mark.parametrize("begins", ["BEGIN", "transaction()"])
def test_in_a_transaction_on_an_autocommit_connection_nothing_is_in_doubt(
    begins: str, note: Any, proxy: Proxy, connection: psycopg.Connection
) -> None:
    """At any way to begin it, the caller commits."""
    mine = psycopg.connect(proxy.url, autocommit=True)
    proxy.cut_after(b"orchestrator.enqueue")

    def manually() -> None:
        mine.execute("BEGIN")
        note.using(mine).enqueue()

    def in_a_block() -> None:
        with mine.transaction():
            note.using(mine).enqueue()

    with pytest.raises(psycopg.OperationalError):
        manually() if begins == "BEGIN" else in_a_block()
    mine.close()

    assert 0 == value(connection, TASKS)
