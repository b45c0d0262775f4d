"""A worker learns of changes of its tasks and of itself at once: by a notification, or by a look."""

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from orchestrator.errors import LeaseLost
from orchestrator.notify import listen
from tests.conftest import MakeApp
from tests.schema.rows import put
from tests.worker.running import (
    attempts,
    hire,
    recorded,
    run_until_empty,
    status,
    statuses,
    task,
    until,
    value,
    working,
)  # fmt: skip

MANUAL_CHANGES: dict[str, str] = {
    "cancelled": "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s",
    "requeued": "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s",
    "deleted": "DELETE FROM orchestrator.tasks WHERE id = %s",
}
WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'orchestrator outcomes' AND wait_event_type = 'Lock'"
)
PROVEN = "SELECT count(*) FROM orchestrator.workers WHERE beacon IS NOT NULL"


@pytest.mark.parametrize("change", MANUAL_CHANGES)
async def test_a_manual_change_reaches_a_running_coroutine(
    app: Orchestrator, connection: psycopg.Connection, change: str
) -> None:
    """It is cancelled with LeaseLost, which gives the reason. The worker reports it, too, and writes no outcome."""
    received: list[Any] = []
    told_after: list[float] = []
    starts: list[int] = []

    @app.task(name="work")
    async def work(context: Context) -> None:
        starts.append(1)
        if len(starts) == 2:
            return  # requeued; it may begin before the first one is told
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            received.extend(cancelled.args)
            told_after.append(time.monotonic())
            assert context.cancelled
            raise

    with recorded(events.LeaseLost, events.StaleOutcome) as seen:
        async with working(app):
            await until(lambda: value(connection, PROVEN), "it hears")
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "running", "it runs")
            acted = time.monotonic()
            connection.execute(MANUAL_CHANGES[change], [enqueued.id])
            await until(lambda: received, "its handler is told")
            if change == "requeued":
                await until(lambda: status(connection, enqueued.id) == "completed", "it ran again")
    assert [("LeaseLost", enqueued.id)] == [(type(e).__name__, e.task_id) for e in seen]
    # Who is requeued may have ended by the time anybody asks.
    assert change == "requeued" or change in seen[0].reason
    task_id, seconds = int(enqueued.id), told_after[0] - acted

    (lost,) = received
    assert isinstance(lost, LeaseLost)
    assert task_id == lost.task_id
    assert seconds < 10


async def test_a_manual_change_reaches_a_running_thread(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Through `context.cancelled`. A handler that returns then leaves no thread behind."""

    @app.task(name="work")
    def work(context: Context) -> str:
        while not context.cancelled:
            threading.Event().wait(0.005)
        return "too late"

    with recorded(events.HandlerAbandoned) as abandoned:
        async with working(app):
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "running", "it runs")
            with recorded(events.LeaseLost) as lost:
                connection.execute(MANUAL_CHANGES["cancelled"], [enqueued.id])
                await until(lambda: lost, "it is told")
    assert [] == abandoned

    row = task(connection, int(enqueued.id))

    assert ("cancelled", None) == (row.status, row.result)


async def test_a_cancel_takes_less_than_a_second_where_no_notification_arrives(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind PgBouncer: the worker notices that it is deaf, reports it, holds no beacon, and polls."""
    monkeypatch.setattr(listen, "LISTEN_WORKERS", b"SELECT 1")
    monkeypatch.setattr(listen, "DEAF_AFTER_SECONDS", 0.1)
    app = make_app(heartbeat_seconds=10.0)
    received: list[float] = []

    @app.task(name="work")
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            received.append(time.monotonic())

    with recorded(events.ListenDeaf) as deaf:
        async with working(app):
            await until(lambda: deaf, "it finds itself deaf")
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "running", "it runs")
            acted = time.monotonic()
            connection.execute(MANUAL_CHANGES["cancelled"], [enqueued.id])
            await until(lambda: received, "its handler is told")
            assert [(None,)] == connection.execute("SELECT beacon FROM orchestrator.workers").fetchall()

    # With room for a busy machine; by the beat alone it would be ten seconds.
    assert received[0] - acted < 3


async def test_an_operator_can_drain_a_worker(app: Orchestrator, connection: psycopg.Connection) -> None:
    """It finishes its running tasks, and ends as after a signal. The role and the reason are on record."""
    running, finish = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        running.set()
        await finish.wait()

    worker = asyncio.create_task(app.arun_worker())
    await work.aenqueue()
    await running.wait()
    left = await work.using(delay=3600).aenqueue()
    connection.execute("SELECT orchestrator.drain_worker(id, 'old host') FROM orchestrator.workers")
    await until(
        lambda: value(connection, "SELECT count(*) FROM orchestrator.workers WHERE state = 'draining'"),
        "it drains",
    )
    finish.set()
    await asyncio.wait_for(worker, 20)
    assert "scheduled" == status(connection, left.id)

    assert {"completed": 1, "scheduled": 1} == statuses(connection)
    assert [("stopped",)] == connection.execute("SELECT state FROM orchestrator.workers").fetchall()
    assert [("drain_worker", "old host")] == connection.execute(
        "SELECT action, reason FROM orchestrator.audit"
    ).fetchall()


async def test_a_pause_is_reported(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Once, and its end, too."""

    @app.task(name="work")
    async def work() -> None: ...

    with recorded(events.QueuesPaused) as seen:
        async with working(app):
            await until(lambda: value(connection, PROVEN), "it hears")
            connection.execute("SELECT orchestrator.pause_queue('default')")
            await until(lambda: seen, "it is told")
            connection.execute("SELECT orchestrator.resume_queue('default')")
            await until(lambda: len(seen) == 2, "it is told")

    assert [("default",), ()] == [event.queues for event in seen]


def test_a_suspect_runs_alone(make_app: MakeApp, connection: psycopg.Connection) -> None:
    """No other task runs or begins at the same time. Others go on as soon as it has ended."""
    app = make_app(poll_seconds=0.1)
    now: set[int] = set()
    beside: dict[int, int] = {}

    @app.task(name="work")
    async def work(context: Context) -> None:
        now.add(context.id)
        beside[context.id] = 0
        for other in now:
            beside[other] = max(beside[other], len(now) - 1)
        for _ in range(20):
            await asyncio.sleep(0)
        now.remove(context.id)

    ids = [work.enqueue().id for _ in range(30)]
    suspects = set(ids[5:8])
    connection.execute("UPDATE orchestrator.tasks_live SET losses = 2 WHERE id = ANY (%s)", [list(suspects)])

    run_until_empty(app)

    assert set(ids) == set(beside)
    assert dict.fromkeys(suspects, 0) == {task_id: beside[task_id] for task_id in suspects}
    assert max(beside.values()) > 0
    assert {"completed": 30} == statuses(connection)


def test_a_suspect_begins_when_the_outcome_of_the_last_one_is_written(
    make_app: MakeApp, database_url: str, connection: psycopg.Connection
) -> None:
    """If it kills its worker, no unwritten outcome may be lost: a completed task would be charged with a loss."""
    app = make_app(poll_seconds=0.1)
    stood: list[str] = []

    async def main() -> None:
        async with working(app):
            await until(lambda: statuses(connection).get("scheduled") == 1, "the other one is put off")
            assert 1 == len(stood)
            operator.rollback()
            await until(lambda: len(stood) == 2, "the other one has its turn", seconds=20.0)

    with psycopg.connect(database_url) as operator:

        @app.task(name="work")
        async def work(context: Context) -> None:
            stood.append(status(connection, min(ids)))
            if len(stood) == 1:
                operator.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [context.id])

        ids = [work.enqueue().id for _ in range(2)]
        connection.execute("UPDATE orchestrator.tasks_live SET losses = 2")
        asyncio.run(main())

    assert ["running", "completed"] == stood


def test_a_task_with_an_error_or_a_loss_is_marked_running_before_it_starts(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """It may kill its worker at its first instruction. Found claimed each time, it would never be charged."""
    app = make_app(poll_seconds=0.1)
    begun_as: dict[int, str] = {}

    @app.task(name="work")
    async def work(context: Context) -> None:
        begun_as[context.id] = status(connection, context.id)

    fresh, lost, doubtful = (work.enqueue().id for _ in range(3))
    connection.execute("UPDATE orchestrator.tasks_live SET losses = 1 WHERE id = %s", [lost])
    connection.execute(
        """UPDATE orchestrator.tasks_live SET error = '{"class": "WorkerLost"}' WHERE id = %s""", [doubtful]
    )

    run_until_empty(app)

    assert {fresh: "claimed", lost: "running", doubtful: "running"} == begun_as


async def test_a_suspect_does_not_keep_a_worker_idle_for_ever(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another worker already makes room for a suspect, this one gives it back, uncharged."""
    monkeypatch.setattr("orchestrator.worker.suspects.PATIENCE_SECONDS", 0.05)
    app = make_app(poll_seconds=0.1, grace_seconds=0.0)
    put(connection, "claimed", queue="elsewhere", losses=2, worker_id=hire(connection))

    @app.task(name="long")
    async def long() -> None:
        await asyncio.Event().wait()

    @app.task(name="work")
    async def work() -> None: ...

    async with working(app):
        first = await long.aenqueue()
        await until(lambda: status(connection, first.id) == "running", "it runs")
        suspect = await work.using(delay=0.2).aenqueue()
        connection.execute("UPDATE orchestrator.tasks_live SET losses = 2 WHERE id = %s", [suspect.id])
        await until(
            lambda: task(connection, suspect.id).claimed_at and status(connection, suspect.id) == "scheduled",
            "it is given back",
        )
        other = await work.aenqueue()
        await until(lambda: status(connection, other.id) == "completed", "others go on")
    suspect_id, first_id = int(suspect.id), int(first.id)

    assert (0, 2) == (task(connection, suspect_id).attempt, task(connection, suspect_id).losses)
    assert ("pending", 0) == (status(connection, first_id), task(connection, first_id).attempt)


async def test_a_suspect_gets_its_turn_while_others_run(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that still run after the grace are given back for it, uncharged and on record, and run again afterwards."""
    monkeypatch.setattr("orchestrator.worker.suspects.PATIENCE_SECONDS", 0.05)
    app = make_app(poll_seconds=0.1, grace_seconds=0.0)
    began: list[int] = []
    held: list[int] = []

    @app.task(name="long", max_attempts=1)
    async def long(context: Context) -> None:
        began.append(context.id)
        if len(began) == 1:
            await asyncio.Event().wait()

    @app.task(name="work")
    async def work() -> None:
        held.append(
            value(connection, "SELECT count(*) FROM orchestrator.tasks_live WHERE worker_id IS NOT NULL")
        )

    async with working(app):
        first = await long.aenqueue()
        await until(lambda: status(connection, first.id) == "running", "it runs")
        suspect = await work.using(delay=0.2).aenqueue()
        connection.execute("UPDATE orchestrator.tasks_live SET losses = 2 WHERE id = %s", [suspect.id])
        for each in (suspect, first):
            await until(lambda each=each: status(connection, each.id) == "completed", "both are done")  # type: ignore[misc]
    _, first_id = int(suspect.id), int(first.id)

    assert [1] == held, "it ran alone"
    assert [(1, "released")] == attempts(connection, first_id)
    assert 1 == task(connection, first_id).attempt


async def test_a_claim_whose_answer_was_lost_goes_back(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """The next look finds it. It is released under its own lease, uncharged, and held tasks stay."""
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1)
    release = asyncio.Event()

    @app.task(name="work")
    async def work() -> None:
        await release.wait()

    with recorded(events.GhostsReleased, events.LeaseLost) as seen:
        async with working(app):
            held = await work.aenqueue()
            await until(lambda: status(connection, held.id) == "running", "it runs")
            # As if claimed for this worker by a statement whose answer never came.
            ghost = await work.using(delay=3600).aenqueue()
            connection.execute(
                "UPDATE orchestrator.tasks_live SET status = 'claimed', lease = 5, attempt = 1,"
                " worker_id = (SELECT id FROM orchestrator.workers) WHERE id = %s",
                [ghost.id],
            )
            await until(lambda: status(connection, ghost.id) != "claimed", "it is given back")
            release.set()
            await until(lambda: status(connection, ghost.id) == "completed", "it runs")
    assert [events.GhostsReleased(1)] == seen[:1]
    ghost_id, held_id = int(ghost.id), int(held.id)

    assert (1, 1) == (task(connection, ghost_id).attempt, task(connection, held_id).attempt)


async def test_a_stopping_worker_gives_back_a_suspect_that_waits(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """Uncharged: after a clean end no task of the worker is claimed."""
    app = make_app(poll_seconds=0.1, grace_seconds=10.0)
    release = asyncio.Event()

    @app.task(name="long")
    async def long() -> None:
        await release.wait()

    @app.task(name="work")
    async def work() -> None: ...

    async with working(app) as worker:
        first = await long.aenqueue()
        await until(lambda: status(connection, first.id) == "running", "it runs")
        suspect = await work.using(delay=0.2).aenqueue()
        connection.execute("UPDATE orchestrator.tasks_live SET losses = 2 WHERE id = %s", [suspect.id])
        await until(lambda: status(connection, suspect.id) == "claimed", "it waits to run alone")
        # Both at once: nothing is left to wait for when the worker begins to stop.
        worker.cancel()
        release.set()

    row = task(connection, int(suspect.id))

    assert ("pending", 0, 2) == (row.status, row.attempt, row.losses)
    assert [("stopped",)] == connection.execute("SELECT state FROM orchestrator.workers").fetchall()
