"""Concurrent claims: the next is sent before the last is answered, and no claimed task is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from orchestrator.postgres import connect
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.worker.claim_pipeline import ClaimPipeline, ClaimResult
from tests.worker.running import hire, statuses, until

READY = 10
INSERT = "INSERT INTO orchestrator.tasks (type) SELECT 'work' FROM generate_series(1, %s)"


@pytest.fixture
def fly(database_url: str, connection: psycopg.Connection) -> Callable[..., None]:
    """Run a function with the claims of a registered worker, with some ready tasks."""
    connection.execute(INSERT, [READY])
    worker_id = hire(connection)

    def run(
        work: Callable[[ClaimPipeline, Callable[..., Awaitable[ClaimResult | None]]], Awaitable[None]],
    ) -> None:
        async def main() -> None:
            session = Session(connect.conninfo(database_url), purpose="claims")
            claims = ClaimPipeline(session, ("default",))

            async def receive(wanted: int, *, more: int = 0) -> ClaimResult | None:
                return await claims.receive(wanted, lambda: worker_id, more=lambda _coming: more)

            try:
                await work(claims, receive)
            finally:
                await claims.cancel()
                await session.close()

        asyncio.run(main())

    return run


def ids(landed: ClaimResult | None) -> list[int]:
    assert landed is not None
    return [task.id for task in landed.tasks]


def held(connection: psycopg.Connection) -> list[Claimed]:
    """Return the claimed tasks in the database, as a beat names them: by id and lease."""
    rows = connection.execute("SELECT id, lease FROM orchestrator.tasks WHERE status = 'claimed' ORDER BY id")
    return [Claimed(*row, *([None] * (len(Claimed._fields) - 2))) for row in rows]


def test_the_next_claim_is_sent_before_the_last_answer_is_read(
    fly: Callable[..., None], connection: psycopg.Connection
) -> None:
    """Each claim finds its own tasks. Together they find all tasks in order, and the last one finds that there are
    no more."""

    async def work(claims: ClaimPipeline, receive: Callable[..., Awaitable[ClaimResult | None]]) -> None:
        first = await receive(4, more=4)
        assert claims.is_on
        second = await receive(0, more=4)
        third = await receive(0, more=4)
        assert third is not None

        assert [4, 4, 2] == [len(ids(found)) for found in (first, second, third)]
        assert sorted(ids(first) + ids(second) + ids(third)) == ids(first) + ids(second) + ids(third)
        assert (False, False) == (third.may_hold_more, claims.is_on)

    fly(work)


def test_a_claim_in_progress_is_no_ghost(fly: Callable[..., None], connection: psycopg.Connection) -> None:
    """The pipeline knows its lease from the sending until a slot has the task, and no longer."""

    async def work(claims: ClaimPipeline, receive: Callable[..., Awaitable[ClaimResult | None]]) -> None:
        await receive(4, more=4)
        await until(lambda: len(held(connection)) == 8, "the second has found its own")
        assert [True] * 8 == [claims.is_receiving(task) for task in held(connection)]

        claims.taken_over()
        assert [False] * 4 + [True] * 4 == [claims.is_receiving(task) for task in held(connection)]

        await receive(0)
        claims.taken_over()
        assert [False] * 8 == [claims.is_receiving(task) for task in held(connection)]

    fly(work)


def test_another_thread_takes_over_all_claims_in_progress(
    fly: Callable[..., None], connection: psycopg.Connection
) -> None:
    """It learns the leases of unread answers, and the loop does not touch them any more."""

    async def work(claims: ClaimPipeline, receive: Callable[..., Awaitable[ClaimResult | None]]) -> None:
        first = await receive(4, more=4)
        assert first is not None
        claims.taken_over()
        abandoned = await asyncio.to_thread(claims.abandon)

        assert (1, None) == (len(abandoned), await receive(0))
        assert abandoned == {task.lease for task in held(connection)} - {task.lease for task in first.tasks}
        claims.taken_over()
        assert set() == claims.abandon()

    fly(work)


def test_a_claim_without_a_recipient_is_a_ghost(
    fly: Callable[..., None], connection: psycopg.Connection
) -> None:
    """The worker stops. Whether the claim was committed is unknown, and no slot has its tasks."""

    async def work(claims: ClaimPipeline, receive: Callable[..., Awaitable[ClaimResult | None]]) -> None:
        await receive(4, more=4)
        claims.taken_over()
        await until(lambda: len(held(connection)) == 8, "the second has found its own")

        assert (True, False) == (await claims.cancel(), await claims.cancel())
        assert (False, set()) == (claims.is_on, claims.abandon())
        assert [False] * 8 == [claims.is_receiving(task) for task in held(connection)]

    fly(work)


def test_a_failed_claim_is_not_in_progress(fly: Callable[..., None], connection: psycopg.Connection) -> None:
    """Its result is unknown, so its tasks are ghosts, and can be found as such."""

    async def work(claims: ClaimPipeline, receive: Callable[..., Awaitable[ClaimResult | None]]) -> None:
        connection.execute("ALTER TABLE orchestrator.tasks_live RENAME TO away")
        with pytest.raises(psycopg.errors.UndefinedTable):
            await receive(4)
        claims.taken_over()
        connection.execute("ALTER TABLE orchestrator.away RENAME TO tasks_live")

        assert (False, set()) == (claims.is_on, claims.abandon())
        assert READY == len(ids(await receive(READY)))

    fly(work)
    assert {"claimed": READY} == statuses(connection)
