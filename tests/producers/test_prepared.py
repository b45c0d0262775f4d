"""The application's own pool prepares its statements where that is possible: on a session of its own."""

import asyncio
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Orchestrator
from tests import bouncer, servers
from tests.worker.running import value

PREPARED: LiteralString = (
    "SELECT count(*) FROM pg_prepared_statements WHERE strpos(statement, 'orchestrator.enqueue') > 0"
)
OFTEN = 10


def declared(url: str) -> Orchestrator:
    app = Orchestrator(url, pool_size=1)

    @app.task(name="note")
    async def note(number: int = 0) -> None: ...

    return app


@pytest.fixture
def bouncing_url(database_url: str) -> Iterator[str]:
    """The test's database through a PgBouncer in transaction mode, with one session in all."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with (
        servers.temporary_directory() as directory,
        bouncer.bouncing(database_url, directory, pool_size=1) as url,
    ):
        yield url


def enqueued_often(app: Orchestrator) -> int:
    """Enqueue in a thread, and return how many statements are prepared in the pool's session."""
    for number in range(OFTEN):
        app.enqueue("note", {"number": number})
    with app._producer.pools.connection() as pooled:
        found = int(value(pooled, PREPARED))
    app.close()
    return found


async def enqueued_often_on_a_loop(app: Orchestrator) -> int:
    for number in range(OFTEN):
        await app.aenqueue("note", {"number": number})
    async with app._producer.pools.aconnection() as pooled:
        ((found,),) = await (await pooled.execute(PREPARED)).fetchall()
    await app.aclose()
    return int(found)


def test_the_pool_prepares_what_it_sends_often(database_url: str, connection: psycopg.Connection) -> None:
    """For threads and on a loop. A statement that is not prepared costs twice as much."""
    assert 1 == enqueued_often(declared(database_url))
    assert 1 == asyncio.run(enqueued_often_on_a_loop(declared(database_url)))
    assert 2 * OFTEN == value(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_behind_a_pooler_they_are_prepared_only_if_it_follows_them(
    bouncing_url: str, connection: psycopg.Connection
) -> None:
    """Elsewhere the statement by which the pool finds that out is forgotten: the next client may use its name."""
    expected = 1 if bouncer.follows_prepared_statements() else 0
    everything = "SELECT count(*) FROM pg_prepared_statements"

    assert expected == enqueued_often(declared(bouncing_url))
    assert expected == asyncio.run(enqueued_often_on_a_loop(declared(bouncing_url)))
    assert 2 * OFTEN == value(connection, "SELECT count(*) FROM orchestrator.tasks")
    with psycopg.connect(bouncing_url, autocommit=True, prepare_threshold=None) as other:
        assert (value(other, everything) > 0) == bool(expected)


def test_another_clients_statement_of_the_same_name_is_no_fault(
    bouncing_url: str, connection: psycopg.Connection
) -> None:
    """A client that prepares behind such a pooler leaves its statements in the sessions of all."""
    with psycopg.connect(bouncing_url, autocommit=True, prepare_threshold=0) as careless:
        careless.execute("SELECT 'mine'")

        expected = 1 if bouncer.follows_prepared_statements() else 0
        assert expected == enqueued_often(declared(bouncing_url))
        assert OFTEN == value(connection, "SELECT count(*) FROM orchestrator.tasks")
