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
    """The handle has its status and result."""
    handle = shop.welcome.enqueue(user_id=1)

    assert [("welcome", 1, "en")] == shop.notes
    assert ("completed", "hello 1") == (handle.status(), handle.result())


def test_a_sync_handler_runs_in_the_callers_thread_and_outside_of_any_loop(shop: Shop) -> None:
    """Django's ORM needs this: the handler then runs in the test's transaction."""
    seen: list[object] = []

    @shop.app.task(name="shop.where")
    def where() -> None:
        seen.append(threading.current_thread())
        with contextlib.suppress(RuntimeError):
            seen.append(asyncio.get_running_loop())

    where.enqueue()

    assert [threading.current_thread()] == seen


def test_arguments_go_through_json_and_back(shop: Shop) -> None:
    """A payload that cannot be enqueued is refused, and a handler gets the same values as from a worker."""
    assert 1 == shop.pack.enqueue(item=Item("hat", date(2030, 1, 2))).result()
    assert [Item("hat", date(2030, 1, 2))] == shop.notes
    with pytest.raises(OrchestratorError, match="item"):
        shop.welcome.enqueue(user_id={"item": object()})


@pytest.mark.parametrize("own_loop", [False, True], ids=["from a thread", "from a coroutine"])
def test_an_async_handler_runs_wherever_it_is_enqueued(shop: Shop, *, own_loop: bool) -> None:
    """If a loop runs already, the handler gets another loop."""

    async def enqueue() -> object:
        return shop.awelcome.enqueue(user_id=2).result()

    result = asyncio.run(enqueue()) if own_loop else shop.awelcome.enqueue(user_id=2).result()

    assert ("hello 2", [("awelcome", 2)]) == (result, shop.notes)


def test_coroutines_enqueue_both_kinds(shop: Shop) -> None:
    """A sync handler then runs in a thread, as in a worker."""

    async def enqueue() -> list[object]:
        handles = [await shop.welcome.aenqueue(user_id=1), await shop.awelcome.aenqueue(user_id=2)]
        return [await handle.aresult() for handle in handles]

    assert ["hello 1", "hello 2"] == asyncio.run(enqueue())


def test_a_handlers_error_is_raised_where_it_was_enqueued(shop: Shop) -> None:
    """It is the same exception, with its traceback."""
    with pytest.raises(ValueError, match="broken") as caught:
        shop.fail.enqueue(word="broken")

    assert "_fail" in [entry.name for entry in caught.traceback]
    # The next task is not affected.
    assert "hello 1" == shop.welcome.enqueue(user_id=1).result()


def test_with_raising_false_a_handlers_error_is_raised_by_the_handle() -> None:
    """As after the last attempt in a worker."""
    shop = Shop(Orchestrator(NOWHERE))
    with testing.inline(shop.app, raising=False):
        handle = shop.fail.enqueue(word="broken")

        with pytest.raises(TaskFailed, match="ValueError"):
            handle.result()


def test_a_task_that_a_handler_enqueues_runs_after_it(shop: Shop) -> None:
    """As with a worker, it does not run in the middle of that handler."""
    shop.chain.enqueue(left=2)

    assert ["begin 2", "end 2", "begin 1", "end 1", "begin 0", "end 0"] == shop.notes


def test_a_task_that_enqueues_itself_comes_to_an_end(shop: Shop) -> None:
    """It ends with an error that names the reason."""
    with pytest.raises(OrchestratorError, match="enqueue itself"):
        shop.chain.enqueue(left=10_000)


def test_the_handle_shows_the_four_ends(shop: Shop) -> None:
    """A task that waits for a retry or a snooze does not run later."""
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
    """The second call returns the task of the first, and runs nothing."""
    first = shop.welcome.using(key="a").enqueue(user_id=1)
    second = shop.welcome.using(key="a").enqueue(user_id=2)

    assert (first.id, True, False) == (second.id, first.created, second.created)
    assert [("welcome", 1, "en")] == shop.notes


def test_options_and_a_transaction_do_not_delay_a_task(shop: Shop, connection: psycopg.Connection) -> None:
    """It runs at once, before its run_at and before the end of the transaction."""
    later = datetime.now(UTC) + timedelta(days=1)
    shop.welcome.using(connection, run_at=later, tags=["a"], metadata={"b": 1}).enqueue(user_id=1)

    assert [("welcome", 1, "en")] == shop.notes


def test_sets_and_calls_by_name_run_too(shop: Shop) -> None:
    """They run in order. A task without a handler in this application stays pending."""
    handles = shop.welcome.enqueue_many([{"user_id": 1}, {"user_id": 2}])
    others = shop.app.enqueue_many([shop.welcome.call(user_id=3), shop.app.call("elsewhere", {})])

    assert ["hello 1", "hello 2"] == [handle.result() for handle in handles]
    assert ["completed", "pending"] == [handle.status() for handle in others]
    assert [1, 2, 3] == [note[1] for note in shop.notes]


def test_a_transaction_of_a_handlers_own_is_refused_with_advice(shop: Shop) -> None:
    """There is no database for it."""

    @shop.app.task(name="shop.own")
    async def own(context: Context) -> None:
        async with context.transaction():
            pass

    with pytest.raises(OrchestratorError, match=r"use testing\.run_tasks"):
        own.enqueue()


def test_after_the_block_tasks_go_to_the_database_again(shop: Shop, database_url: str) -> None:
    """The task of the block is not there."""
    other = Shop(Orchestrator(database_url))
    with testing.inline(other.app):
        other.welcome.enqueue(user_id=1)
    other.welcome.enqueue(user_id=2)

    assert [{"user_id": 2}] == [task.arguments for task in testing.all_enqueued(other.app)]
    other.app.close()
