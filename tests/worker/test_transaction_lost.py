"""A handler's own transaction, and what can interrupt it: manual changes, timeouts, a stop, a used-up pool."""

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from orchestrator.finish import own_transaction
from tests.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.ledger import (
    ENTRY,
    SLOW_COMMIT,
    both_colours,
    entries,
    one_each,
    writing,
)
from tests.worker.running import (
    AT_ONCE,
    attempts,
    recorded,
    run_until_empty,
    status,
    statuses,
    task,
    until,
    value,
    working,
)
from tests.worker.test_notified import MANUAL_CHANGES

pytestmark = pytest.mark.usefixtures("ledger")

# On an idle machine each step takes a hundredth of this.
TIMEOUT_SECONDS = 1.5

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE '%%transactions' AND wait_event_type = 'Lock'"
    " AND datname = current_database()"
)
UNHEARD = """
    CREATE OR REPLACE FUNCTION orchestrator.notify_workers(worker_ids uuid[]) RETURNS void LANGUAGE sql AS $$ $$
"""
SLEEPING = (
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%%' AND state <> 'idle'"
    " AND pid <> pg_backend_pid() AND datname = current_database()"
)


@both_colours
@pytest.mark.parametrize("change", MANUAL_CHANGES)
async def test_a_manual_change_during_the_transaction_undoes_its_writes(
    make_app: MakeApp, connection: psycopg.Connection, colour: str, change: str
) -> None:
    """The lease check at the end of the block finds it, like any stale outcome, if the handler has not been informed
    before."""
    # The worker does not hear of the change, nor find it when it marks the row: what is tried is the fence.
    connection.execute(UNHEARD)
    app = make_app(heartbeat_seconds=10.0, poll_seconds=0.2)
    seen: list[str] = []

    def is_marked(context: Context) -> bool:
        return status(connection, context.id) == "running"

    def interfere(context: Context) -> None:
        connection.execute(MANUAL_CHANGES[change], [context.id])

    async def on_loop(context: Context) -> None:
        await until(lambda: is_marked(context), "it is marked")
        interfere(context)

    def act(context: Context) -> Any:
        if context.attempt > 1 or seen:
            return None
        seen.append("")
        if colour == "async":
            return on_loop(context)
        eventually(lambda: is_marked(context), "it is marked")
        return interfere(context)

    handle = writing(app, colour, inside=act).enqueue()

    with recorded(events.StaleOutcome, events.LeaseLost, events.TaskFailed) as emitted:
        async with working(app):
            await until(lambda: emitted, "it is told")
            if change == "requeued":
                await until(lambda: status(connection, handle.id) == "completed", "it ran again")

    assert [handle.id] == [event.task_id for event in emitted]
    assert events.TaskFailed not in {type(event) for event in emitted}
    # After a manual requeue it begins anew, with its first attempt: one entry, and that is the second run's.
    assert ([(handle.id, 1)] if change == "requeued" else []) == entries(connection)
    # That it ran is on record; an outcome it has none.
    assert [(1, "lost")] == attempts(connection, handle.id)


@both_colours
def test_a_completion_waits_for_an_open_manual_change(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """It has locked the row when the block ends. Its cancel wins, and the handler's writes are undone."""
    with psycopg.connect(app.config.database_url) as operator:
        handle = writing(
            app,
            colour,
            inside=lambda context: operator.execute(MANUAL_CHANGES["cancelled"], [context.id]) and None,
        ).enqueue()

        async def main() -> None:
            with recorded(events.StaleOutcome, events.LeaseLost) as emitted:
                async with working(app):
                    await until(lambda: value(connection, WAITING), "it waits for the operator")
                    operator.commit()
                    await until(lambda: emitted, "it is told")

        asyncio.run(main())

    assert ("cancelled", []) == (status(connection, handle.id), entries(connection))


@both_colours
def test_a_manual_change_that_does_not_end_fails_the_attempt_with_a_message(
    app: Orchestrator, connection: psycopg.Connection, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a few seconds, because the handler's transaction holds locks of its own. The next attempt completes."""
    monkeypatch.setattr(
        own_transaction,
        "WITHIN",
        own_transaction.WITHIN.replace(b"lock_timeout = '5s'", b"lock_timeout = '100ms'"),
    )
    with psycopg.connect(app.config.database_url) as operator:

        def lock(context: Context) -> None:
            if context.attempt == 1:
                operator.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [context.id])

        handle = writing(app, colour, inside=lock, backoff=AT_ONCE).enqueue()

        async def main() -> None:
            async with working(app):
                with recorded(events.TaskFailed, events.TaskCompleted) as emitted:
                    await until(lambda: value(connection, WAITING), "it waits for the operator")
                    await until(lambda: not value(connection, WAITING), "it gives up")
                    operator.commit()
                    await until(lambda: len(emitted) == 2, "it completes")

        asyncio.run(main())

    assert ("completed", [(1, "failed")]) == (status(connection, handle.id), attempts(connection, handle.id))
    assert [(handle.id, 2)] == entries(connection)
    said = value(connection, "SELECT error ->> 'message' FROM orchestrator.attempts")
    assert f"task {handle.id} could not be completed: another transaction has its row locked" in said


@both_colours
def test_a_timeout_inside_ends_the_statement_and_undoes_all(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """Also that of a thread, which would otherwise wait with its locks: the statement is cancelled on the server,
    and the thread ends."""
    ended = threading.Event()

    @app.task(name="slow", timeout=TIMEOUT_SECONDS, max_attempts=1)
    async def slow(context: Context) -> None:
        async with context.transaction() as own:
            await own.execute(ENTRY, [context.id, 1])
            try:
                await own.execute("SELECT pg_sleep(60)")
            finally:
                ended.set()

    @app.task(name="slow_in_thread", timeout=TIMEOUT_SECONDS, max_attempts=1)
    def slow_in_thread(context: Context) -> None:
        with context.transaction() as own:
            own.execute(ENTRY, [context.id, 1])
            try:
                own.execute("SELECT pg_sleep(60)")
            finally:
                ended.set()

    handle = (slow if colour == "async" else slow_in_thread).enqueue()
    run_until_empty(app)

    assert ended.wait(10)
    assert ("dead_letter", [(1, "timeout")]) == (
        status(connection, handle.id),
        attempts(connection, handle.id),
    )
    assert [] == entries(connection)
    assert 0 == value(connection, SLEEPING)


@both_colours
def test_a_timeout_after_the_commit_takes_nothing_back(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The attempt stays completed, whatever the handler does then."""
    go_on = threading.Event()

    def linger(_context: Context) -> Any:
        return asyncio.Event().wait() if colour == "async" else go_on.wait(20)

    handle = writing(app, colour, after=linger, timeout=TIMEOUT_SECONDS, max_attempts=1).enqueue()
    with recorded(events.TaskCompleted, events.TaskDeadLettered, events.StaleOutcome) as seen:
        run_until_empty(app)
    go_on.set()

    assert [(events.TaskCompleted, handle.id, 1)] == [(type(e), e.task_id, e.attempt) for e in seen]
    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))


@both_colours
def test_a_timeout_during_the_commit_waits_for_its_answer(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """A commit in progress cannot be undone, so it decides: completed, once, with its entry."""
    connection.execute(SLOW_COMMIT.format(seconds=2 * TIMEOUT_SECONDS))
    handle = writing(app, colour, timeout=TIMEOUT_SECONDS, max_attempts=1).enqueue()
    with recorded(events.TaskCompleted, events.TaskDeadLettered, events.StaleOutcome) as seen:
        run_until_empty(app)

    assert [(events.TaskCompleted, handle.id, 1)] == [(type(e), e.task_id, e.attempt) for e in seen]
    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))
    assert [] == attempts(connection, handle.id)


async def test_a_thread_that_was_left_behind_commits_nothing(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Its attempt has failed, and has been retried, when it reaches the end of its block."""
    release, late = threading.Event(), threading.Event()

    def linger(context: Context) -> None:
        if context.attempt == 1:
            release.wait(20)
            late.set()

    handle = writing(app, "def", inside=linger, timeout=TIMEOUT_SECONDS, backoff=AT_ONCE).enqueue()

    async with working(app):
        await until(lambda: task(connection, handle.id).attempt >= 2, "it is retried")
        release.set()
        await until(late.is_set, "the first one comes to its end")
        await until(lambda: statuses(connection) == {"completed": 1}, "the second one completes")

    assert [(handle.id, 2)] == entries(connection)
    assert [(1, "timeout")] == attempts(connection, handle.id)


@both_colours
async def test_an_attempt_that_is_stopped_inside_its_transaction_gives_back_and_writes_nothing(
    make_app: MakeApp, connection: psycopg.Connection, colour: str
) -> None:
    """Uncharged, as without a transaction."""
    app = make_app(grace_seconds=0.0)
    inside = threading.Event()

    def linger(context: Context) -> Any:
        inside.set()
        if colour == "async":
            return asyncio.Event().wait()
        while not context.cancelled:
            time.sleep(0.005)
        return None

    handle = writing(app, colour, inside=linger).enqueue()

    async with working(app):
        await until(inside.is_set, "it is inside")

    assert ("pending", 0) == (status(connection, handle.id), task(connection, handle.id).attempt)
    assert [] == entries(connection)


def test_few_connections_serve_all_in_turn(make_app: MakeApp, connection: psycopg.Connection) -> None:
    """Coroutines and threads together have a limited number. A waiting handler goes on when a connection is free.

    No handler leaves before two are inside at once.
    """
    app = make_app(transaction_pool_size=2)
    inside: set[int] = set()
    most: list[int] = []
    two_inside = threading.Event()

    def entered(task_id: int) -> None:
        inside.add(task_id)
        most.append(len(inside))
        if len(inside) == 2:
            two_inside.set()

    @app.task(name="on_loop")
    async def on_loop(context: Context) -> None:
        async with context.transaction() as own:
            entered(context.id)
            await own.execute(ENTRY, [context.id, context.attempt])
            assert await asyncio.to_thread(two_inside.wait, PATIENCE_SECONDS)
            inside.discard(context.id)

    @app.task(name="in_thread")
    def in_thread(context: Context) -> None:
        with context.transaction() as own:
            entered(context.id)
            own.execute(ENTRY, [context.id, context.attempt])
            assert two_inside.wait(PATIENCE_SECONDS)
            inside.discard(context.id)

    for _ in range(30):
        on_loop.enqueue()
        in_thread.enqueue()
    run_until_empty(app, concurrency=20)

    assert one_each(connection, 60)
    assert 2 == max(most)


@both_colours
def test_the_wait_for_a_connection_counts_against_the_timeout(
    database_url: str, connection: psycopg.Connection, colour: str
) -> None:
    """A handler that waits for too long fails with its timeout, and keeps no connection."""
    app = Orchestrator(database_url, transaction_pool_size=1)
    release = asyncio.Event()

    @app.task(name="long")
    async def long(context: Context) -> None:
        async with context.transaction():
            await release.wait()

    waiting = writing(app, colour, timeout=0.3, max_attempts=1)

    async def main() -> int:
        async with working(app):
            first = await long.aenqueue()
            await until(lambda: status(connection, first.id) == "running", "it runs")
            second = await waiting.aenqueue()
            await until(lambda: status(connection, second.id) == "dead_letter", "it times out")
            release.set()
            third = await waiting.using(timeout=60).aenqueue()
            await until(lambda: status(connection, third.id) == "completed", "the next one has a connection")
        await app.aclose()
        assert [(third.id, 1)] == entries(connection)
        return int(second.id)

    assert [(1, "timeout")] == attempts(connection, asyncio.run(main()))
    app.close()
