"""Enqueueing in the caller's transaction, with everything that a caller may hold."""

import contextlib
from typing import Any

import psycopg
import pytest

from orchestrator.errors import EnqueueRefused
from tests.producers.every_holder import (
    ALL_KINDS,
    OWN_ROW,
    enqueue,
    enqueue_many,
    sending,
)

pytestmark = pytest.mark.usefixtures("own_table")
every_kind = pytest.mark.parametrize("kind", ALL_KINDS)
single_or_set = pytest.mark.parametrize("many", [0, 25], ids=["one", "a set"])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of 25 has three chunks."""
    monkeypatch.setattr(sending, "CHUNK_ITEMS", 10)


def counted(connection: psycopg.Connection) -> tuple[int, int]:
    """Return how many rows of the caller's own and how many tasks are committed."""
    row = connection.execute(
        "SELECT (SELECT count(*) FROM public.own), (SELECT count(*) FROM orchestrator.tasks)"
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


async def put(kind: str, note: Any, held: Any, many: int) -> None:
    """Enqueue one task, or a set of this size."""
    if many:
        handles = await enqueue_many(kind, note.using(held), ({"number": n} for n in range(many)))
        assert many == len(handles)
        assert all(handle.created for handle in handles)
    else:
        assert (await enqueue(kind, note.using(held), number=1)).created


@every_kind
@single_or_set
async def test_a_commit_commits_both(
    kind: str, many: int, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """Before the caller's commit nothing is visible, and after it everything."""

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        await put(kind, note, holding.held, many)
        assert (0, 0) == counted(connection)
        await holding.execute(OWN_ROW)
        await holding.commit()

    assert (2, many or 1) == counted(connection)


@every_kind
@single_or_set
async def test_a_rollback_rolls_back_both(
    kind: str, many: int, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """And the caller's objects can be used again."""

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        await put(kind, note, holding.held, many)
        await holding.rollback()
        await holding.execute(OWN_ROW)
        await holding.commit()

    assert (1, 0) == counted(connection)


@every_kind
async def test_enqueueing_first_begins_their_transaction(
    kind: str, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """Like any first statement; a rollback undoes it."""

    async with ALL_KINDS[kind](database_url) as holding:
        await put(kind, note, holding.held, 3)
        await holding.rollback()
        await put(kind, note, holding.held, 0)
        await holding.rollback()
        await put(kind, note, holding.held, 25)
        await holding.commit()

    assert (0, 25) == counted(connection)


@every_kind
@single_or_set
async def test_a_savepoint_rolls_back_its_own_enqueues_only(
    kind: str, many: int, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """It does not affect the enqueues before and after it."""

    async with ALL_KINDS[kind](database_url) as holding:
        await put(kind, note, holding.held, 0)
        await holding.execute(OWN_ROW)
        with contextlib.suppress(LookupError):
            async with holding.savepoint():
                await holding.execute(OWN_ROW)
                await put(kind, note, holding.held, many)
                raise LookupError
        async with holding.savepoint():
            await put(kind, note, holding.held, 0)
        await holding.execute(OWN_ROW)
        await holding.commit()

    assert (2, 2) == counted(connection)


@every_kind
async def test_a_refused_set_leaves_their_transaction_as_it_was(
    kind: str, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """A set has a savepoint of its own: if the third chunk is refused, nothing of the set exists, and the caller
    goes on."""

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        bad = (note.using(key="k" * (501 if n == 21 else 7)).call(number=n) for n in range(25))
        with pytest.raises(EnqueueRefused, match=r"items\[21\]: the idempotency key has 501"):
            await enqueue_many(kind, note.using(holding.held), bad)
        await holding.execute(OWN_ROW)
        await put(kind, note, holding.held, 0)
        await holding.commit()

    assert (2, 1) == counted(connection)


@every_kind
async def test_an_iterator_that_raises_leaves_their_transaction_as_it_was(
    kind: str, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """Its error is raised unchanged; even a database's error does not become ours."""

    def broken() -> Any:
        yield from ({"number": n} for n in range(15))
        raise psycopg.OperationalError("of another connection")

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        with pytest.raises(psycopg.OperationalError, match="of another connection"):
            await enqueue_many(kind, note.using(holding.held), broken())
        await holding.commit()

    assert (1, 0) == counted(connection)


@every_kind
async def test_a_refusal_is_an_error_in_their_transaction_like_any_other(
    kind: str, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """Our sentence, with the driver's error as its cause. After a rollback the caller goes on."""
    connection.execute("UPDATE orchestrator.queues SET state = 'draining' WHERE name = 'default'")

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        with pytest.raises(EnqueueRefused, match="queue 'default' is draining") as refusal:
            await enqueue(kind, note.using(holding.held))
        with pytest.raises(EnqueueRefused, match="has failed"):
            await enqueue(kind, note.using(holding.held))
        await holding.rollback()
        await holding.execute(OWN_ROW)
        await holding.commit()
    refused = refusal.value

    assert "OR003" == refused.sqlstate
    assert refused.__cause__ is not None
    assert "draining" in str(refused.__cause__)
    assert (1, 0) == counted(connection)


@every_kind
async def test_a_refusal_in_a_savepoint_costs_only_the_savepoint(
    kind: str, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """So an application may try to enqueue, and commit in any case."""
    connection.execute("UPDATE orchestrator.queues SET state = 'draining' WHERE name = 'default'")

    async with ALL_KINDS[kind](database_url) as holding:
        await holding.execute(OWN_ROW)
        with pytest.raises(EnqueueRefused):
            async with holding.savepoint():
                await enqueue(kind, note.using(holding.held))
        await holding.commit()

    assert (1, 0) == counted(connection)
