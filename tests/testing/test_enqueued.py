"""Assertions about enqueued tasks: by some of the arguments, also in a transaction, with a helpful message."""

import asyncio
from collections.abc import Callable
from datetime import date
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from orchestrator import testing
from tests.testing.tasks import Item, Shop


def complaint(act: Callable[[], Any]) -> str:
    """Return the message of an assertion that fails."""
    with pytest.raises(AssertionError) as caught:
        act()
    return str(caught.value)


def test_a_task_is_found_by_some_of_its_arguments(shop: Shop) -> None:
    """The task is returned, so that a test can check its other fields."""
    shop.welcome.using(key="first", tags=["vip"], metadata={"by": "web"}).enqueue(user_id=1, language="de")

    found = testing.assert_enqueued(shop.welcome, user_id=1)

    assert ({"user_id": 1, "language": "de"}, "mail", "pending", 50) == (
        found.arguments, found.queue, found.status, found.priority,
    )  # fmt: skip
    assert ("first", ("vip",), {"by": "web"}) == (found.key, found.tags, found.metadata)
    testing.assert_enqueued(shop.welcome)
    testing.refute_enqueued(shop.welcome, user_id=2)
    testing.refute_enqueued(shop.fail)


def test_values_are_compared_as_json(shop: Shop) -> None:
    """A dataclass is compared as it was enqueued, and true is not 1."""
    shop.pack.enqueue(item=Item("hat", date(2030, 1, 2)))
    shop.welcome.enqueue(user_id=1)

    testing.assert_enqueued(shop.pack, item=Item("hat", date(2030, 1, 2)))
    testing.refute_enqueued(shop.pack, item=Item("hat", date(2030, 1, 3)))
    testing.refute_enqueued(shop.welcome, user_id=True)


def test_a_failure_shows_what_is_enqueued_instead(shop: Shop) -> None:
    """The message escapes untrusted text, and shortens long text."""
    shop.welcome.enqueue(user_id=2)
    shop.fail.enqueue(word="\x1b[2J" + "x" * 500)

    message = complaint(lambda: testing.assert_enqueued(shop.welcome, user_id=1))

    assert message.startswith('shop.welcome with {"user_id": 1} is not enqueued. Enqueued are:\n'), message
    assert '  shop.welcome {"user_id": 2} (id ' in message
    assert "\x1b" not in message
    assert len(message) < 600


def test_of_many_other_tasks_the_newest_are_listed(shop: Shop) -> None:
    """The message gives the number of the rest."""
    shop.welcome.enqueue_many([{"user_id": n} for n in range(30)])

    message = complaint(lambda: testing.assert_enqueued(shop.fail))

    assert "… and 10 before these" in message
    assert 22 == len(message.splitlines())


def test_a_failure_where_nothing_is_enqueued_gives_advice(shop: Shop) -> None:
    """The usual reason is a transaction that is not committed."""
    assert "using(session)" in complaint(lambda: testing.assert_enqueued(shop.welcome))


def test_a_failed_absence_check_names_the_task(shop: Shop) -> None:
    """The message has its id, queue and status."""
    handle = shop.welcome.enqueue(user_id=1)

    assert f"(id {handle.id}, queue mail, pending)" in complaint(
        lambda: testing.refute_enqueued(shop.welcome, user_id=1)
    )


def test_an_argument_that_the_task_does_not_take_is_a_mistake(shop: Shop) -> None:
    """Otherwise refute_enqueued with a misspelt name would always pass."""
    with pytest.raises(TypeError, match="takes no argument 'usr_id'"):
        testing.refute_enqueued(shop.welcome, usr_id=1)


def test_options_are_refused_with_advice(shop: Shop) -> None:
    """A test compares them on the task that is returned."""
    with pytest.raises(TypeError, match="compare them on what is returned"):
        testing.assert_enqueued(shop.welcome.using(queue="mail"), user_id=1)


def test_using_looks_into_an_open_transaction(
    shop: Shop, connection: psycopg.Connection, database_url: str
) -> None:
    """It may be psycopg's or SQLAlchemy's. Without `using`, its tasks are not visible."""
    with connection.transaction(force_rollback=True):
        shop.welcome.using(connection).enqueue(user_id=1)
        testing.assert_enqueued(shop.welcome.using(connection), user_id=1)
        testing.refute_enqueued(shop.welcome)
    testing.refute_enqueued(shop.welcome.using(connection))
    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with Session(engine) as session:
        shop.welcome.using(session).enqueue(user_id=3)
        assert [{"user_id": 3}] == [t.arguments for t in testing.all_enqueued(shop.app, using=session)]
        testing.refute_enqueued(shop.welcome)
    engine.dispose()


def test_coroutines_have_the_same_assertions(shop: Shop, database_url: str) -> None:
    """They run on the application's async pool, or on the caller's connection."""

    async def look() -> list[dict[str, Any]]:
        await shop.awelcome.aenqueue(user_id=1)
        await testing.aassert_enqueued(shop.awelcome, user_id=1)
        await testing.arefute_enqueued(shop.awelcome, user_id=2)
        async with await psycopg.AsyncConnection.connect(database_url) as mine:
            await shop.awelcome.using(mine).aenqueue(user_id=2)
            await testing.aassert_enqueued(shop.awelcome.using(mine), user_id=2)
            await mine.rollback()
        with pytest.raises(AssertionError, match="is not enqueued"):
            await testing.aassert_enqueued(shop.awelcome, user_id=2)
        found = await testing.aall_enqueued(shop.awelcome)
        await shop.app.aclose()
        return [task.arguments for task in found]

    assert [{"user_id": 1}] == asyncio.run(look())


def test_a_finished_task_is_not_enqueued(shop: Shop) -> None:
    """A completed task and a dead letter do not count."""
    shop.welcome.enqueue(user_id=1)
    shop.ask.enqueue(what="discard")
    testing.run_tasks(shop.app)

    assert [] == testing.all_enqueued(shop.app)
