"""Concurrent claims: the next is sent before the last is answered, and no claimed task is lost."""

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from orchestrator.postgres import connect
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome
from orchestrator.worker.claim_pipeline import ClaimPipeline, ClaimResult
from orchestrator.worker.ledger import Ledger
from tests.worker.holding import holding
from tests.worker.running import hire, statuses, until

READY = 10
INSERT = "INSERT INTO orchestrator.tasks (type) SELECT 'work' FROM generate_series(1, %s)"


Receive = Callable[..., Awaitable[ClaimResult]]
Work = Callable[[ClaimPipeline, Ledger, Receive], Awaitable[None]]


@pytest.fixture
def fly(database_url: str, connection: psycopg.Connection) -> Callable[[Work], None]:
    """Run a function with the claims of a registered worker, with some ready tasks."""
    connection.execute(INSERT, [READY])
    worker_id = hire(connection)

    def run(work: Work) -> None:
        async def main() -> None:
            session = Session(connect.conninfo(database_url), purpose="claims")
            ledger = holding()
            claims = ClaimPipeline(session, ("default",), ledger)

            async def receive(wanted: int, *, more: int = 0) -> ClaimResult:
                return await claims.receive(wanted, lambda: worker_id, more=lambda _coming: more)

            try:
                await work(claims, ledger, receive)
            finally:
                await claims.cancel()
                await session.close()

        asyncio.run(main())

    return run


def ids(found: ClaimResult) -> list[int]:
    return [task.id for task in found.tasks]


def arrive(ledger: Ledger, found: ClaimResult) -> bool:
    return ledger.arrive(found.lease, [Outcome(task) for task in found.tasks])


def held(connection: psycopg.Connection) -> list[Claimed]:
    """Return the claimed tasks in the database, as a beat names them: by id and lease."""
    rows = connection.execute("SELECT id, lease FROM orchestrator.tasks WHERE status = 'claimed' ORDER BY id")
    return [Claimed(*row, *([None] * (len(Claimed._fields) - 2))) for row in rows]


def ghosts(ledger: Ledger, connection: psycopg.Connection) -> int:
    """Return how many tasks a look takes for ghosts."""
    with ledger.look():
        return len(ledger.ghosts(held(connection)))


def test_the_next_claim_is_sent_before_the_last_answer_is_read(
    fly: Callable[[Work], None], connection: psycopg.Connection
) -> None:
    """Each claim finds its own tasks. Together they find all tasks in order, and the last one finds that there are
    no more."""

    async def work(claims: ClaimPipeline, _ledger: Ledger, receive: Receive) -> None:
        first = await receive(4, more=4)
        assert claims.is_on
        second = await receive(0, more=4)
        third = await receive(0, more=4)

        assert [4, 4, 2] == [len(ids(found)) for found in (first, second, third)]
        assert sorted(ids(first) + ids(second) + ids(third)) == ids(first) + ids(second) + ids(third)
        assert (False, False) == (third.may_hold_more, claims.is_on)

    fly(work)


def test_a_claim_in_progress_is_no_ghost(fly: Callable[[Work], None], connection: psycopg.Connection) -> None:
    """The ledger expects its lease from the sending until its tasks arrive."""

    async def work(_claims: ClaimPipeline, ledger: Ledger, receive: Receive) -> None:
        first = await receive(4, more=4)
        await until(lambda: len(held(connection)) == 8, "the second has found its own")
        assert 0 == ghosts(ledger, connection)

        assert arrive(ledger, first)
        assert 0 == ghosts(ledger, connection)

        assert arrive(ledger, await receive(0))
        assert 0 == ghosts(ledger, connection)

    fly(work)


def test_another_thread_takes_over_all_claims_in_progress(
    fly: Callable[[Work], None], connection: psycopg.Connection
) -> None:
    """It learns the leases of unread answers, and the loop does not touch them any more."""

    async def work(_claims: ClaimPipeline, ledger: Ledger, receive: Receive) -> None:
        first = await receive(4, more=4)
        arrive(ledger, first)
        taken = await asyncio.to_thread(ledger.take_claims)

        assert (1, False) == (len(taken), arrive(ledger, await receive(0)))
        assert taken == {task.lease for task in held(connection)} - {first.lease}
        assert set() == ledger.take_claims()

    fly(work)


def test_a_claim_without_a_recipient_is_a_ghost(
    fly: Callable[[Work], None], connection: psycopg.Connection
) -> None:
    """The worker stops. Whether the claim was committed is unknown, and the ledger does not have its tasks."""

    async def work(claims: ClaimPipeline, ledger: Ledger, receive: Receive) -> None:
        arrive(ledger, await receive(4, more=4))
        await until(lambda: len(held(connection)) == 8, "the second has found its own")

        assert (True, False) == (await claims.cancel(), await claims.cancel())
        assert (False, set(), 4) == (claims.is_on, ledger.take_claims(), ghosts(ledger, connection))

    fly(work)


def test_a_failed_claim_is_not_in_progress(
    fly: Callable[[Work], None], connection: psycopg.Connection
) -> None:
    """Its result is unknown, so its tasks are ghosts, and can be found as such."""

    async def work(claims: ClaimPipeline, ledger: Ledger, receive: Receive) -> None:
        connection.execute("ALTER TABLE orchestrator.tasks_live RENAME TO away")
        with pytest.raises(psycopg.errors.UndefinedTable):
            await receive(4)
        connection.execute("ALTER TABLE orchestrator.away RENAME TO tasks_live")

        assert (False, set()) == (claims.is_on, ledger.take_claims())
        assert READY == len(ids(await receive(READY)))

    fly(work)
    assert {"claimed": READY} == statuses(connection)
