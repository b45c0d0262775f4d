"""Django's databases, by their alias: atomic blocks, autocommit, hooks, and coroutines."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.core.exceptions import SynchronousOnlyOperation
from django.db import IntegrityError, connections, transaction
from django.db.transaction import TransactionManagementError

from orchestrator import testing
from orchestrator.errors import EnqueueRefused
from tests.producers.every_holder import django_on, numbers, sending
from tests.worker.running import value

TASKS = "SELECT count(*) FROM orchestrator.tasks"
KEY_OF_TOO_MANY_CHARACTERS = "k" * 501


@pytest.fixture(autouse=True)
def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Django's default database is the test's own; sets have chunks of ten."""
    monkeypatch.setattr(sending, "CHUNK_ITEMS", 10)
    with django_on(database_url):
        yield
    asyncio.run(sync_to_async(connections.close_all)())


def test_outside_of_atomic_a_task_is_committed_at_once(note: Any, connection: psycopg.Connection) -> None:
    """Django's autocommit: a task, and a set as a whole."""
    note.using("default").enqueue()
    one = value(connection, TASKS)
    note.using("default").enqueue_many(numbers(25))
    with pytest.raises(EnqueueRefused, match=r"items\[21\]"):
        note.using("default").enqueue_many(
            note.using(key=KEY_OF_TOO_MANY_CHARACTERS if n == 21 else None).call(number=n) for n in range(25)
        )

    assert (1, 26) == (one, value(connection, TASKS))
    assert not connections["default"].in_atomic_block
    assert connections["default"].get_autocommit()


def test_in_atomic_a_task_is_committed_with_the_block(note: Any, connection: psycopg.Connection) -> None:
    """As with ATOMIC_REQUESTS, where the block is the whole view."""

    def view(fails: bool) -> None:
        with transaction.atomic():
            note.using("default").enqueue()
            note.using("default").enqueue_many(numbers(25))
            assert 0 == value(connection, TASKS)
            if fails:
                raise LookupError

    with pytest.raises(LookupError):
        view(True)
    assert 0 == value(connection, TASKS)
    view(False)

    assert 26 == value(connection, TASKS)


def test_an_inner_atomic_rolls_back_its_own_tasks(note: Any, connection: psycopg.Connection) -> None:
    """With Django's savepoints."""
    with transaction.atomic():
        note.using("default").enqueue()
        with suppress(LookupError), transaction.atomic():
            note.using("default").enqueue_many(numbers(25))
            raise LookupError
        note.using("default").enqueue()

    assert 2 == value(connection, TASKS)


def test_a_refused_set_leaves_the_block_usable(note: Any, connection: psycopg.Connection) -> None:
    """Its own savepoint is rolled back; Django does not count the block as broken."""
    with transaction.atomic():
        with pytest.raises(EnqueueRefused):
            note.using("default", key=KEY_OF_TOO_MANY_CHARACTERS).enqueue_many(numbers(25))
        assert not connections["default"].needs_rollback
        note.using("default").enqueue()

    assert 1 == value(connection, TASKS)


def test_a_broken_block_raises_its_own_error(note: Any) -> None:
    """Django's own error, before anything is sent."""
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            note.using("default").enqueue()


def test_hooks_run_after_the_commit_alone(note: Any) -> None:
    """An enqueue in the block does not run on_commit early."""
    seen: list[str] = []
    with transaction.atomic():
        transaction.on_commit(lambda: seen.append("hook"))
        note.using("default").enqueue_many(numbers(25))
        seen.append("end of the block")

    assert ["end of the block", "hook"] == seen


def test_a_hook_can_enqueue_after_the_commit(note: Any, connection: psycopg.Connection) -> None:
    """The usual way with Celery works as well."""
    with transaction.atomic():
        transaction.on_commit(lambda: note.using("default").enqueue())

    assert 1 == value(connection, TASKS)


def test_other_drivers_errors_keep_their_class(note: Any, connection: psycopg.Connection) -> None:
    """Django's IntegrityError of the caller's own statement, raised by the caller's iterator, does not become ours."""

    def broken() -> Iterator[dict[str, int]]:
        yield from numbers(15)
        raise IntegrityError("theirs")

    with pytest.raises(IntegrityError, match="theirs"):
        note.using("default").enqueue_many(broken())

    assert 0 == value(connection, TASKS)


async def test_on_the_loop_an_enqueue_runs_in_djangos_thread(
    note: Any, connection: psycopg.Connection
) -> None:
    """It is committed at once, because Django has no transactions there: a task, and a set as a whole."""

    await note.using("default").aenqueue()
    await note.using("default").aenqueue_many(numbers(25))
    with pytest.raises(EnqueueRefused, match=r"items\[0\]"):
        await note.using("default", key=KEY_OF_TOO_MANY_CHARACTERS).aenqueue_many(numbers(25))

    assert 26 == value(connection, TASKS)


async def test_an_atomic_function_called_from_the_loop_has_its_transaction(
    note: Any, connection: psycopg.Connection
) -> None:
    """Django's own advice: sync_to_async around an atomic function."""

    def work(fails: bool) -> None:
        with transaction.atomic():
            note.using("default").enqueue()
            if fails:
                raise LookupError

    with pytest.raises(LookupError):
        await sync_to_async(work)(True)
    await sync_to_async(work)(False)

    assert 1 == value(connection, TASKS)


async def test_the_synchronous_way_on_the_loop_is_refused_by_django(note: Any) -> None:
    """It would block the loop."""

    with pytest.raises(SynchronousOnlyOperation):
        note.using("default").enqueue()


def test_an_unknown_alias_is_refused_with_the_known_ones(note: Any) -> None:
    """So is an alias of a database that cannot have the tasks."""
    with pytest.raises(TypeError, match=r"Django has no database 'defualt'; its settings know default, lite"):
        note.using("defualt")
    with pytest.raises(TypeError, match="Django's database 'lite' is sqlite; tasks live in PostgreSQL"):
        note.using("lite")


def test_a_test_sees_the_tasks_of_its_own_atomic_block(note: Any) -> None:
    """Tasks that Django's TestCase never commits can be asserted all the same."""
    with transaction.atomic():
        note.using("default").enqueue(number=1)
        testing.assert_enqueued(note.using("default"), number=1)
        testing.refute_enqueued(note)
        transaction.set_rollback(True)
    testing.refute_enqueued(note.using("default"))
