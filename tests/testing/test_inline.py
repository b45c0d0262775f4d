"""Inline, a handler runs when its task is enqueued, without a database."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest

from orchestrator import Context, Orchestrator, TaskCancelled, TaskFailed, testing
from orchestrator.errors import OperationRefused, OrchestratorError
from tests.testing.tasks import Item, Shop

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"


@pytest.fixture
def shop() -> Iterator[Shop]:
    """A shop without a database, whose tasks run inline."""
    shop = Shop(Orchestrator(NOWHERE))
    with testing.inline(shop.app):
        yield shop


def test_a_handler_runs_when_its_task_is_enqueued(shop: Shop) -> None:
    """The handle knows how it ended."""
    handle = shop.welcome.enqueue(user_id=1)

    assert [("welcome", 1, "en")] == shop.notes
    assert ("completed", "hello 1") == (handle.status(), handle.result())


def test_a_def_runs_in_the_thread_and_outside_of_any_loop(shop: Shop) -> None:
    """As Django's ORM wants it: the test's transaction is the handler's."""
    seen: list[object] = []

    @shop.app.task(name="shop.where")
    def where() -> None:
        seen.append(threading.current_thread())
        with contextlib.suppress(RuntimeError):
            seen.append(asyncio.get_running_loop())

    where.enqueue()

    assert [threading.current_thread()] == seen


def test_arguments_go_through_json_and_back(shop: Shop) -> None:
    """What could not be enqueued cannot be run, and what comes is what a worker would make of it."""
    assert 1 == shop.pack.enqueue(item=Item("hat", date(2030, 1, 2))).result()
    assert [Item("hat", date(2030, 1, 2))] == shop.notes
    with pytest.raises(OrchestratorError, match="item"):
        shop.welcome.enqueue(user_id={"item": object()})


@pytest.mark.parametrize("own_loop", [False, True], ids=["from a thread", "from a coroutine"])
def test_an_async_handler_runs_wherever_it_is_enqueued(shop: Shop, *, own_loop: bool) -> None:
    """Where a loop runs already, on one of its own beside it."""

    async def enqueue() -> object:
        return shop.awelcome.enqueue(user_id=2).result()

    result = asyncio.run(enqueue()) if own_loop else shop.awelcome.enqueue(user_id=2).result()

    assert ("hello 2", [("awelcome", 2)]) == (result, shop.notes)


def test_coroutines_enqueue_both_kinds(shop: Shop) -> None:
    """A def runs in a thread there, as it would in a worker."""

    async def enqueue() -> list[object]:
        handles = [await shop.welcome.aenqueue(user_id=1), await shop.awelcome.aenqueue(user_id=2)]
        return [await handle.aresult() for handle in handles]

    assert ["hello 1", "hello 2"] == asyncio.run(enqueue())


def test_a_handlers_error_is_raised_where_it_was_enqueued(shop: Shop) -> None:
    """The very one, with its traceback."""
    with pytest.raises(ValueError, match="broken") as caught:
        shop.fail.enqueue(word="broken")

    assert "_fail" in [entry.name for entry in caught.traceback]
    # And nothing of it is left behind.
    assert "hello 1" == shop.welcome.enqueue(user_id=1).result()


def test_a_handlers_error_can_be_the_handles() -> None:
    """As after a last attempt."""
    shop = Shop(Orchestrator(NOWHERE))
    with testing.inline(shop.app, raising=False):
        handle = shop.fail.enqueue(word="broken")

        with pytest.raises(TaskFailed, match="ValueError"):
            handle.result()


def test_a_task_that_a_handler_enqueues_runs_after_it(shop: Shop) -> None:
    """Not in the middle of the handler, as with a worker."""
    shop.chain.enqueue(left=2)

    assert ["begin 2", "end 2", "begin 1", "end 1", "begin 0", "end 0"] == shop.notes


def test_a_task_that_enqueues_itself_comes_to_an_end(shop: Shop) -> None:
    """With an error that says why."""
    with pytest.raises(OrchestratorError, match="enqueue itself"):
        shop.chain.enqueue(left=10_000)


def test_the_handle_shows_the_four_ends(shop: Shop) -> None:
    """What waits is not waited for."""
    handles = {what: shop.ask.enqueue(what=what) for what in ("retry", "snooze", "cancel", "discard")}

    assert {"retry": "scheduled", "snooze": "scheduled", "cancel": "cancelled", "discard": "dead_letter"} == {
        what: handle.status() for what, handle in handles.items()
    }
    with pytest.raises(OrchestratorError, match="nothing runs later"):
        handles["retry"].result()
    with pytest.raises(TaskCancelled, match="no longer"):
        handles["cancel"].result()
    with pytest.raises(TaskFailed, match="never"):
        handles["discard"].result()
    handles["snooze"].cancel("enough")
    assert "cancelled" == handles["snooze"].status()
    with pytest.raises(OperationRefused):
        handles["discard"].cancel()


def test_a_key_is_taken_once(shop: Shop) -> None:
    """The second enqueue returns the first's task, and runs nothing."""
    first = shop.welcome.using(key="a").enqueue(user_id=1)
    second = shop.welcome.using(key="a").enqueue(user_id=2)

    assert (first.id, True, False) == (second.id, first.created, second.created)
    assert [("welcome", 1, "en")] == shop.notes


def test_options_and_a_transaction_do_not_hold_a_task_up(shop: Shop, connection: psycopg.Connection) -> None:
    """Neither a run_at nor the end of a transaction is waited for."""
    later = datetime.now(UTC) + timedelta(days=1)
    shop.welcome.using(connection, run_at=later, tags=["a"], metadata={"b": 1}).enqueue(user_id=1)

    assert [("welcome", 1, "en")] == shop.notes


def test_sets_and_names_run_too(shop: Shop) -> None:
    """In order; what nobody here handles stays where it is."""
    handles = shop.welcome.enqueue_many([{"user_id": 1}, {"user_id": 2}])
    others = shop.app.enqueue_many([shop.welcome.call(user_id=3), shop.app.call("elsewhere", {})])

    assert ["hello 1", "hello 2"] == [handle.result() for handle in handles]
    assert ["completed", "pending"] == [handle.status() for handle in others]
    assert [1, 2, 3] == [note[1] for note in shop.notes]


def test_a_transaction_of_a_handlers_own_is_refused_with_advice(shop: Shop) -> None:
    """There is no database to have it in."""

    @shop.app.task(name="shop.own")
    async def own(context: Context) -> None:
        async with context.transaction():
            pass

    with pytest.raises(OrchestratorError, match=r"use testing\.run_tasks"):
        own.enqueue()


def test_when_the_block_is_over_the_database_counts_again(shop: Shop, database_url: str) -> None:
    """Also for handles made before."""
    other = Shop(Orchestrator(database_url))
    with testing.inline(other.app):
        other.welcome.enqueue(user_id=1)
    other.welcome.enqueue(user_id=2)

    assert [{"user_id": 2}] == [task.arguments for task in testing.all_enqueued(other.app)]
    other.app.close()
