"""Many producers at the same time: threads, coroutines, connections of their own, and PgBouncer between."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from orchestrator import Orchestrator
from orchestrator.errors import DatabaseUnavailable, EnqueueRefused
from tests import bouncer, servers
from tests.producers.every_holder import driven
from tests.worker.running import until, value, working

TASKS = "SELECT count(*) FROM orchestrator.tasks"
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


def note_of(app: Orchestrator) -> Any:
    @app.task(name="note")
    async def note(number: int = 0) -> int:
        return number

    return note


def test_thirty_two_connections_sixteen_threads_and_two_hundred_coroutines_at_once(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The threads and the coroutines share pools of four; each connection commits its own."""
    app = Orchestrator(database_url, pool_size=4)
    note = note_of(app)

    def on_own_connection(number: int) -> None:
        with psycopg.connect(database_url) as mine:
            for _ in range(5):
                note.using(mine).enqueue(number=number)
            note.using(mine).enqueue_many({"number": number} for _ in range(5))

    def in_thread(number: int) -> None:
        for _ in range(5):
            note.enqueue(number=number)
        note.enqueue_many({"number": number} for _ in range(5))

    async def on_loop() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(note.aenqueue(number=number))
                group.create_task(note.aenqueue_many([{"number": number}] * 2))
        assert value(connection, SESSIONS) <= 1 + 32 + 4 + 4
        await app.aclose()

    with ThreadPoolExecutor(48) as threads:
        work = [threads.submit(on_own_connection, n) for n in range(32)]
        work += [threads.submit(in_thread, n) for n in range(16)]
        asyncio.run(on_loop())
        for done in work:
            done.result(60)
    app.close()

    assert 32 * 10 + 16 * 10 + 200 * 3 == value(connection, TASKS)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_full_pool_waits_and_then_names_the_setting_to_raise(
    colour: str, database_url: str, connection: psycopg.Connection
) -> None:
    """A caller gets a connection as soon as one is free within its time."""
    app = Orchestrator(database_url, pool_size=1, pool_timeout_seconds=1.0)
    note = note_of(app)

    def asks_again() -> Iterator[dict[str, int]]:
        """Enqueue while the pool's only connection is in use for this very set."""
        with pytest.raises(DatabaseUnavailable, match=r"pool_size \(1\).*raise ORCHESTRATOR_POOL_SIZE"):
            note.enqueue(number=1)
        yield {"number": 2}

    async def main() -> None:
        held, waiting = asyncio.Event(), []
        pool = await app._producer.pools.on_loop()
        async with pool.connection():
            held.set()
            with pytest.raises(DatabaseUnavailable, match=r"pool_size \(1\).*raise ORCHESTRATOR_POOL_SIZE"):
                await note.aenqueue(number=1)
            waiting.append(asyncio.create_task(note.aenqueue(number=2)))
            await asyncio.sleep(0)
        await asyncio.gather(*waiting)
        await app.aclose()

    if colour == "def":
        note.enqueue_many(asks_again())
        app.close()
    else:
        asyncio.run(main())

    assert [2] == [row[0]["number"] for row in connection.execute("SELECT payload FROM orchestrator.tasks")]


@pytest.mark.parametrize("colour", ["def", "async"])
def test_idle_sessions_that_the_server_ended_cost_no_time(
    colour: str, database_url: str, connection: psycopg.Connection
) -> None:
    """As after its restart. The pool's own check waits after each, and gives up before the last of these."""
    app = Orchestrator(database_url, pool_size=8, pool_timeout_seconds=10.0)
    note, pools = note_of(app), app._producer.pools

    async def main() -> None:
        async with AsyncExitStack() as stack:
            for _ in range(8):
                await stack.enter_async_context(pools.aconnection())
        end_all()
        await note.aenqueue(number=1)
        await app.aclose()

    def end_all() -> None:
        ended = (
            "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity WHERE application_name = %s"
        )
        assert 8 == value(connection, ended, "orchestrator producer")

    if colour == "async":
        asyncio.run(main())
    else:
        with ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(pools.connection())
        end_all()
        note.enqueue(number=1)
        app.close()

    assert 1 == value(connection, TASKS)


@pytest.fixture
def bouncing_url(database_url: str) -> Iterator[str]:
    """The test's database through a PgBouncer in transaction mode, with two sessions in all."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with (
        servers.temporary_directory() as directory,
        bouncer.bouncing(database_url, directory, pool_size=2) as url,
    ):
        yield url


def test_producers_share_two_sessions_through_pgbouncer(
    bouncing_url: str, connection: psycopg.Connection
) -> None:
    """In transaction mode: threads, coroutines, sets of several chunks, keys, refusals."""
    app = Orchestrator(bouncing_url, pool_size=8)
    note = note_of(app)

    def in_thread(number: int) -> None:
        for _ in range(10):
            note.enqueue(number=number)
        note.enqueue_many({"number": n} for n in range(1_200))
        assert not (note.using(key="once").enqueue().created and note.using(key="once").enqueue().created)
        with pytest.raises(EnqueueRefused):
            note.using(key="k" * 501).enqueue()

    async def on_loop() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(200):
                group.create_task(note.aenqueue(number=number))
        await app.aclose()

    with ThreadPoolExecutor(8) as threads:
        work = [threads.submit(in_thread, n) for n in range(8)]
        asyncio.run(on_loop())
        for done in work:
            done.result(60)
    app.close()

    assert 8 * 1_210 + 1 + 200 == value(connection, TASKS)
    assert value(connection, SESSIONS) <= 3


def test_the_callers_transaction_goes_through_pgbouncer(
    bouncing_url: str, connection: psycopg.Connection
) -> None:
    """psycopg's and SQLAlchemy's, often enough for a prepared statement if those were allowed."""
    app = Orchestrator(bouncing_url)
    note = note_of(app)

    for commits in (True, False) * 10:
        with psycopg.connect(bouncing_url, prepare_threshold=None) as mine:
            note.using(mine).enqueue(number=1)
            note.using(mine).enqueue_many([{"number": 2}] * 2)
            if not commits:
                mine.rollback()
    engine = create_engine(
        driven(bouncing_url, "psycopg"), connect_args={"prepare_threshold": None}, pool_size=2
    )
    for commits in (True, False) * 10:
        with Session(engine) as session:
            note.using(session).enqueue(number=3)
            note.using(session).enqueue_many([{"number": 4}] * 2)
            if commits:
                session.commit()
    engine.dispose()
    app.close()

    assert 10 * 3 + 10 * 3 == value(connection, TASKS)


def test_a_handle_waits_through_pgbouncer(
    bouncing_url: str, database_url: str, connection: psycopg.Connection
) -> None:
    """The producer's side; the worker has its own connections."""
    near, far = Orchestrator(database_url), Orchestrator(bouncing_url)
    note_of(near)
    note = note_of(far)

    async def main() -> list[int]:
        handles = [await note.aenqueue(number=n) for n in range(20)]
        async with working(near):
            results = await asyncio.gather(*(handle.aresult(timeout=30) for handle in handles))
        await until(lambda: value(connection, TASKS) == 20, "all are there")
        await far.aclose()
        return results

    assert list(range(20)) == asyncio.run(main())
    far.close()
    near.close()
