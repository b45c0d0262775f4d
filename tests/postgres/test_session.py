"""A session that reconnects, also to a server that accepts connections and never answers."""

import asyncio

import pytest

from orchestrator.config import Config
from orchestrator.postgres import connect
from orchestrator.postgres.session import Connection, Session


def test_work_that_gets_no_answer_is_done_again(database_url: str) -> None:
    """It runs again on another connection; the first one is closed."""
    tried: list[int] = []

    async def work(connection: Connection) -> int:
        tried.append(connection.info.backend_pid)
        if len(tried) == 1:
            await connection.execute("SET statement_timeout = 0")
            await connection.execute("SELECT pg_sleep(60)")
        return len(tried)

    async def main() -> int:
        session = Session(connect.conninfo(database_url), purpose="test")
        try:
            return await session.run(work, give_up_on=lambda _error: False, answer_seconds=0.2)
        finally:
            await session.close()

    assert 2 == asyncio.run(asyncio.wait_for(main(), 20))
    assert 2 == len(set(tried))


def test_work_that_a_transaction_timeout_ends_is_done_again(database_url: str) -> None:
    """PostgreSQL 17 has this setting, for a role or a database. It ends the session, but it must not end the worker."""
    tried: list[int] = []

    async def work(connection: Connection) -> int:
        tried.append(connection.info.backend_pid)
        if len(tried) == 1:
            if connection.info.server_version < 170_000:
                pytest.skip("this server has no transaction_timeout")
            await connection.execute("SET transaction_timeout = '50ms'")
            await connection.execute("SELECT pg_sleep(60)")
        return len(tried)

    async def main() -> int:
        session = Session(connect.conninfo(database_url), purpose="test")
        try:
            return await session.run(work, give_up_on=lambda _error: False)
        finally:
            await session.close()

    assert 2 == asyncio.run(main())
    assert 2 == len(set(tried))


def test_locks_of_a_frozen_worker_are_released_before_it_counts_as_dead(database_url: str) -> None:
    """The server ends a worker's session that is idle in a transaction, because other workers wait for its locks."""

    async def ask(connection: Connection) -> int:
        cursor = await connection.execute(
            "SELECT setting::int FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'"
        )
        (milliseconds,) = await cursor.fetchone() or (0,)
        return int(milliseconds)

    async def main() -> int:
        session = Session(connect.conninfo(database_url), purpose="test")
        try:
            return await session.run(ask, give_up_on=lambda _error: False)
        finally:
            await session.close()

    limit = Config(database_url=database_url).dead_after_seconds * 1000 / 3
    assert 0 < asyncio.run(main()) <= limit


def test_a_statement_for_one_task_is_not_planned_each_time(database_url: str) -> None:
    """With one id, PostgreSQL would take its own plan for it for the cheaper one, each time."""

    async def work(connection: Connection) -> tuple[int, int]:
        for _ in range(20):
            await connection.execute(
                "SELECT t.id FROM orchestrator.tasks_live AS t JOIN unnest(%s::bigint[]) AS g (id) ON g.id = t.id",
                [[1]],
                prepare=True,
            )
        cursor = await connection.execute(
            "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE strpos(statement, 'unnest') > 0"
        )
        (row,) = await cursor.fetchall()
        return int(row[0]), int(row[1])

    async def main() -> tuple[int, int]:
        session = Session(connect.conninfo(database_url), purpose="test")
        try:
            return await session.run(work, give_up_on=lambda _error: True)
        finally:
            await session.close()

    assert (0, 20) == asyncio.run(main())
