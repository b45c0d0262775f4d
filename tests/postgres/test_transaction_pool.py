"""The pool that lends connections to handlers: a limited number, for coroutines and threads. No cancellation loses a
connection."""

import asyncio
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest

from orchestrator.errors import DatabaseUnavailable
from orchestrator.postgres import connect, transaction_pool
from orchestrator.postgres.reconnect import Reconnect
from orchestrator.postgres.transaction_pool import TransactionPool
from tests.patience import PATIENCE_SECONDS, eventually


def lending(url: str, size: int) -> TransactionPool:
    info = connect.conninfo(url, application_name="lent")
    return TransactionPool(info, purpose="test", size=size, reach=Reconnect())


def settles_at(connection: psycopg.Connection, sessions: int) -> None:
    """Wait until the pool has so many sessions: the server needs a moment to end one that was closed."""
    query = "SELECT FROM pg_stat_activity WHERE application_name = 'lent' AND datname = current_database()"
    eventually(lambda: connection.execute(query).rowcount == sessions, f"the pool has {sessions} sessions")


async def test_no_cancellation_is_lost_and_none_costs_a_connection(
    database_url: str, connection: psycopg.Connection
) -> None:
    """A coroutine may be cancelled while it waits, while it connects, or just after it got a connection."""
    made = lending(database_url, 2)
    dice = random.Random(5)  # noqa: S311 - no secret
    swallowed: list[bool] = []

    async def use() -> None:
        lent = await made.aborrow()
        try:
            await asyncio.sleep(0)
        finally:
            await made.atake_back(lent)

    async def cancelled_somewhere() -> None:
        using = asyncio.ensure_future(use())
        for _ in range(dice.randrange(12)):
            await asyncio.sleep(0)
        if using.cancel():
            await asyncio.wait({using})
            swallowed.append(not using.cancelled())

    for _ in range(100):
        await asyncio.gather(*(cancelled_somewhere() for _ in range(10)))
    async with asyncio.timeout(PATIENCE_SECONDS):
        both = [await made.aborrow(), await made.aborrow()]
        settles_at(connection, 2)
        for each in both:
            await made.atake_back(each)
    await made.close()

    assert len(swallowed) > 500
    assert not any(swallowed)


async def test_threads_and_coroutines_share_one_limit(
    database_url: str, connection: psycopg.Connection
) -> None:
    """An idle sync connection is closed to make room for an async one, and the reverse."""
    made = lending(database_url, 1)

    def in_thread() -> None:
        lent = made.borrow(lambda: True)
        assert lent is not None
        settles_at(connection, 1)
        made.take_back(lent)

    for _ in range(5):
        lent = await made.aborrow()
        settles_at(connection, 1)
        await made.atake_back(lent)
        await asyncio.to_thread(in_thread)
    await made.close()


def test_a_thread_that_is_wanted_no_longer_stops_waiting(database_url: str) -> None:
    """It leaves its place to others."""
    made = lending(database_url, 1)
    first = made.borrow(lambda: True)
    assert first is not None
    assert None is made.borrow(lambda: False)

    made.take_back(first)
    again = made.borrow(lambda: False)
    assert again is first
    made.take_back(again)
    asyncio.run(made.close())


@pytest.mark.parametrize(
    "ask",
    [lambda made: made.borrow(lambda: True), lambda made: asyncio.run(made.aborrow())],
    ids=["sync", "async"],
)
def test_an_unreachable_database_is_reported_after_a_limited_time(
    monkeypatch: pytest.MonkeyPatch, ask: Callable[[TransactionPool], object]
) -> None:
    """Its place in the pool is free again."""
    monkeypatch.setattr(transaction_pool, "PATIENCE_SECONDS", 0.5)
    made = lending("postgresql://127.0.0.1:1/nowhere", 1)
    for _ in range(2):
        begun = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            ask(made)
        assert 0.4 < time.monotonic() - begun < 5


def test_closing_closes_lent_connections_too(database_url: str, connection: psycopg.Connection) -> None:
    """So a transaction that is still open keeps no locks."""
    made = lending(database_url, 1)
    lent = made.borrow(lambda: True)
    assert lent is not None
    waiting = threading.Thread(target=sleep_on, args=[lent])
    waiting.start()
    asyncio.run(made.close())
    waiting.join(10)

    assert not waiting.is_alive()
    made.take_back(lent)
    assert lent.closed


def sleep_on(lent: psycopg.Connection[tuple[object, ...]]) -> None:
    with suppress(psycopg.OperationalError):
        lent.execute("SELECT pg_sleep(60)")
