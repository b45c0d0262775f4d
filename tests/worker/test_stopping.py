"""The ends of a worker: on request, in a hurry, without its database, or by an error; and the state it leaves."""

import asyncio
import signal
import threading
from contextlib import suppress

import psycopg
import pytest

from orchestrator import Context, DatabaseUnavailable, Orchestrator, events
from orchestrator.claim import batch, new_lease
from orchestrator.config import Config
from orchestrator.finish import Outbox
from orchestrator.postgres import connect
from orchestrator.postgres.session import Session
from orchestrator.worker import end_attempts
from orchestrator.worker.end_attempts import AttemptEnder
from orchestrator.worker.ledger import Ledger
from orchestrator.worker.slots import Slots
from tests.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS
from tests.worker.outage import Outage
from tests.worker.running import (
    asleep,
    hire,
    recorded,
    run_until_empty,
    status,
    statuses,
    task,
    until,
    value,
    working,
)


async def test_a_cancelled_worker_stops_cleanly(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Running tasks may finish, waiting tasks stay, no task stays claimed or running, and the row says stopped."""
    go_on = asyncio.Event()

    @app.task(name="work")
    async def work() -> str:
        await go_on.wait()
        return "finished"

    ids = [(await work.aenqueue()).id for _ in range(3)]
    worker = asyncio.create_task(app.arun_worker(concurrency=2))
    await until(lambda: statuses(connection) == {"running": 2, "pending": 1}, "two run")
    with recorded(events.WorkerStopping) as stopping:
        worker.cancel()
        await until(lambda: stopping, "the worker stops")
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert [(2, 10.0)] == [(event.running, event.grace_seconds) for event in stopping]
    assert ["completed", "completed", "pending"] == [status(connection, task_id) for task_id in ids]

    assert "stopped" == value(connection, "SELECT state FROM orchestrator.workers")
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE lease IS NOT NULL")


async def test_a_stopping_worker_begins_no_task_that_it_claimed_ahead(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives them back, uncharged, before a running task leaves its slot."""
    # On a busy machine the worker would give them back for another reason: they waited for a slot too long.
    monkeypatch.setattr(end_attempts, "STALE_SECONDS", 3600.0)
    tasks, before_the_long_one = 2000, 500
    go_on = asyncio.Event()
    begun: list[int] = []

    @app.task(name="work")
    async def work(context: Context) -> None:
        begun.append(context.id)
        if len(begun) == before_the_long_one:
            await go_on.wait()

    await work.aenqueue_many([{}] * tasks)
    worker = asyncio.create_task(app.arun_worker(concurrency=1))
    await until(lambda: len(begun) == before_the_long_one, "the long one runs")
    await until(lambda: statuses(connection).get("claimed", 0) > 0, "some are claimed ahead")
    with recorded(events.WorkerStopping) as stopping:
        worker.cancel()
        await until(lambda: stopping, "the worker stops")
    go_on.set()
    with suppress(asyncio.CancelledError):
        await worker

    assert before_the_long_one == len(begun)
    assert {"completed": before_the_long_one, "pending": tasks - before_the_long_one} == statuses(connection)
    assert 0 == value(connection, "SELECT max(attempt) FROM orchestrator.tasks_live")


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_second_cancel_hurries(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """Running tasks are given back at once, uncharged and in their old place, and their handlers are informed."""
    was_cancelled, let_go = threading.Event(), threading.Event()

    @app.task(name="endless")
    async def on_loop() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    @app.task(name="endless-thread")
    def in_thread(context: Context) -> None:
        while not context.cancelled and not let_go.wait(0.005):
            pass
        was_cancelled.set()

    endless = on_loop if colour == "async" else in_thread

    enqueued = await endless.aenqueue()
    before = task(connection, enqueued.id)
    worker = asyncio.create_task(app.arun_worker())
    await until(lambda: status(connection, enqueued.id) == "running", "it runs")
    with recorded(events.WorkerStopping, events.TaskReleased) as happened:
        worker.cancel()
        await until(lambda: happened, "the worker stops")
        worker.cancel()
        with suppress(asyncio.CancelledError):
            async with asyncio.timeout(5):
                await worker
    after = task(connection, enqueued.id)
    assert ("pending", 0, None, None) == (after.status, after.attempt, after.lease, after.error)
    assert before.position == after.position
    assert [events.WorkerStopping, events.TaskReleased] == [type(event) for event in happened]

    assert was_cancelled.wait(PATIENCE_SECONDS)
    let_go.set()
    assert "stopped" == value(connection, "SELECT state FROM orchestrator.workers")


async def test_the_grace_ends_by_itself(make_app: MakeApp, connection: psycopg.Connection) -> None:
    """A task that needs longer than the grace is given back without a second signal."""
    app = make_app(grace_seconds=0.1)

    @app.task(name="endless")
    async def endless() -> None:
        await asyncio.Event().wait()

    async with working(app):
        await endless.aenqueue()
        await until(lambda: statuses(connection) == {"running": 1}, "it runs")

    assert {"pending": 1} == statuses(connection)


async def test_the_task_of_a_handler_that_ignores_its_cancellation_is_given_back(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The handler delays no other: its lease is given up, and its late outcome is not written."""
    monkeypatch.setattr("orchestrator.worker.end_attempts.CANCEL_SECONDS", 0.2)
    app = make_app(grace_seconds=0)
    enough = asyncio.Event()

    @app.task(name="stubborn")
    async def stubborn() -> str:
        while not enough.is_set():
            with suppress(asyncio.CancelledError):
                await enough.wait()
        return "late"

    async with working(app):
        await stubborn.aenqueue()
        await until(lambda: statuses(connection) == {"running": 1}, "it runs")
    assert {"pending": 1} == statuses(connection)
    enough.set()

    assert {"pending": 1} == statuses(connection)
    assert "stopped" == value(connection, "SELECT state FROM orchestrator.workers")


async def test_a_worker_inside_an_application_leaves_signals_alone(app: Orchestrator) -> None:
    """They belong to the application."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

    @app.task(name="look")
    async def look() -> None:
        seen.append([signal.getsignal(number) for number in numbers])

    seen: list[object] = []

    before = [signal.getsignal(number) for number in numbers]
    await look.aenqueue()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await app.arun_worker(until_empty=True)
    assert [before] == seen
    assert before == [signal.getsignal(number) for number in numbers]


async def test_a_worker_stops_while_its_database_is_away(
    app: Orchestrator, connection: psycopg.Connection, outage: Outage
) -> None:
    """An idle worker stops at once, without a wait for the database."""

    worker = asyncio.create_task(app.arun_worker())
    # Only a connection that it has can be lost: it has claimed once.
    await until(lambda: asleep(connection), "it sleeps")
    with recorded(events.ConnectionLost) as lost:
        outage.begin()
        await until(lambda: {"claims", "heartbeat"} <= {event.purpose for event in lost}, "it notices")
    worker.cancel()
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(12):
            await worker


def test_outcomes_that_could_not_be_written_are_logged(
    make_app: MakeApp, connection: psycopg.Connection, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker ends all the same, with an error. Another worker recovers the task later."""
    monkeypatch.setattr("orchestrator.worker.worker.LAST_WRITES_SECONDS", 0.3)
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=0.4, grace_seconds=0.2)
    runs: list[int] = []

    @app.task(name="work")
    async def work() -> None:
        runs.append(1)
        if len(runs) == 1:
            outage.begin()

    async def main() -> None:
        await work.aenqueue()
        worker = asyncio.create_task(app.arun_worker())
        await until(lambda: runs, "it runs")
        worker.cancel()
        with pytest.raises(DatabaseUnavailable, match="stopped with 1 outcomes that could not be written"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await worker
        await app.aclose()

    asyncio.run(main())
    outage.end()
    run_until_empty(app)

    assert ({"completed": 1}, 2) == (statuses(connection), len(runs))


def test_a_worker_that_fails_loses_nothing(make_app: MakeApp, connection: psycopg.Connection) -> None:
    """Its row does not say that it stopped cleanly, so its tasks are taken back."""
    # A worker that could not beat for so long would give up its task for that reason.
    app = make_app(
        poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=PATIENCE_SECONDS, term_seconds=2
    )
    broken, whole = (
        "ALTER TABLE orchestrator.queues RENAME TO q",
        "ALTER TABLE orchestrator.q RENAME TO queues",
    )

    @app.task(name="work")
    async def work(context: Context) -> int:
        if context.attempt == 1:
            await asyncio.Event().wait()
        return context.attempt

    @app.task(name="more")
    async def more() -> None: ...

    async def main() -> int:
        enqueued = await work.aenqueue()
        worker = asyncio.create_task(app.arun_worker())
        await until(lambda: status(connection, enqueued.id) == "running", "it runs")
        with connection.transaction():
            # Its ring makes the worker claim.
            connection.execute("SELECT orchestrator.enqueue('more')")
            connection.execute(broken)
        with pytest.raises(psycopg.errors.UndefinedTable):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await worker
        connection.execute(whole)
        await app.aclose()
        return int(enqueued.id)

    task_id = asyncio.run(main())
    assert "running" == status(connection, task_id)
    connection.execute("UPDATE orchestrator.workers SET dead_after = interval '1 ms'")
    run_until_empty(app)

    row = task(connection, task_id)
    assert ("completed", 2, 1) == (row.status, row.result, row.losses)


async def test_a_task_with_an_outcome_is_not_given_back(
    app: Orchestrator, database_url: str, connection: psycopg.Connection
) -> None:
    """A drain leaves ended tasks alone. Tasks that wait for room in the outbox go back."""

    @app.task(name="work")
    async def work() -> None: ...

    ids = [work.enqueue().id for _ in range(3)]
    worker_id = hire(connection)
    config = Config(database_url=database_url)

    session = Session(connect.conninfo(database_url), purpose="outcomes")
    outbox = Outbox(session, limit=2, put_off=lambda: None)
    ledger = Ledger(config.concurrency, outbox, freed=lambda: None)
    slots = Slots(config, app.registry, ledger, outbox, mark=lambda: None)
    handler = slots.handler_of("work")
    assert handler is not None
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as other:
        answer = await batch(other, lease=new_lease(), worker_id=worker_id, queues=["default"], batch_size=3)
        claimed = await answer.tasks()
    attempts = [slots.attempt(task, handler, worker_id, 0.0) for task in claimed]
    ledger.enter(attempts)
    ledger.line_up(attempts)
    slots.wake()
    await until(lambda: ledger.at_work == 1 and outbox.count == 2, "two are in, one waits outside")
    sending = asyncio.create_task(outbox.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await AttemptEnder(ledger, slots, mark=lambda: None).give_back()
        await outbox.flush()
    sending.cancel()
    slots.stop()
    await session.close()

    assert ["completed", "completed", "pending"] == [status(connection, task_id) for task_id in ids]
