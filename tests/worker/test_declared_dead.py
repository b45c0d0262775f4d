"""A worker is declared dead and comes back, and others run the tasks of a dead worker."""

import asyncio
import time
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events, notify
from orchestrator.notify import idle_wait
from tests.conftest import MakeApp
from tests.worker.running import (
    DEAD,
    attempts,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    value,
    working,
)


@pytest.mark.parametrize("colour", ["async", "def"])
async def test_a_worker_that_was_declared_dead_comes_back_under_a_new_id(
    make_app: MakeApp, connection: psycopg.Connection, colour: str
) -> None:
    """It drops its tasks and informs their handlers. The tasks run again: lost once, with the cause on record."""
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=0.5)
    cancelled_attempts: list[int] = []

    async def on_loop(context: Context) -> int:
        if context.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled_attempts.append(context.attempt)
        return context.attempt

    def in_thread(context: Context) -> int:
        while context.attempt == 1 and not context.cancelled:
            time.sleep(0.005)
        if context.attempt == 1:
            cancelled_attempts.append(context.attempt)
        return context.attempt

    work = app.task(name="work")(on_loop if colour == "async" else in_thread)

    with recorded(events.WorkerDeclaredDead) as died:
        async with working(app):
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "running", "it runs")
            connection.execute(DEAD)
            await until(lambda: status(connection, enqueued.id) == "completed", "it ran again")
    task_id = int(enqueued.id)

    row = task(connection, task_id)
    assert (2, 1, 2) == (row.attempt, row.losses, row.result)
    assert [(1, "lost")] == attempts(connection, task_id)
    assert [1] == cancelled_attempts
    assert [(1, row.worker_id)] == [(event.dropped, event.new_worker_id) for event in died]
    states = connection.execute("SELECT id, state FROM orchestrator.workers ORDER BY started_at").fetchall()
    assert [(died[0].worker_id, "dead"), (died[0].new_worker_id, "stopped")] == states


async def test_a_new_id_is_adopted_only_with_its_row(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """The worker is declared dead while its new row cannot be written. It tries again, and never claims under an id
    without a row."""
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=0.5)

    @app.task(name="work")
    async def work() -> None: ...

    with recorded(events.DutyFailed, events.WorkerDeclaredDead) as seen:
        async with working(app):
            await until(lambda: value(connection, "SELECT count(*) FROM orchestrator.workers"), "it serves")
            connection.execute(
                "ALTER TABLE orchestrator.workers ADD CONSTRAINT shut CHECK (capacity < 0) NOT VALID"
            )
            connection.execute("DELETE FROM orchestrator.workers")
            await until(lambda: [e for e in seen if "shut" in getattr(e, "message", "")], "it is refused")
            connection.execute("ALTER TABLE orchestrator.workers DROP CONSTRAINT shut")
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "completed", "it serves again")
    task_id = int(enqueued.id)

    assert [(task(connection, task_id).worker_id,)] == connection.execute(
        "SELECT id FROM orchestrator.workers"
    ).fetchall()


async def test_a_worker_that_is_declared_dead_while_it_marks_itself_idle_marks_its_new_row(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark was written into its old row. Without one in the new row no producer rings it."""
    monkeypatch.setattr(idle_wait, "MARK_SECONDS", 3600.0)
    app = make_app(heartbeat_seconds=0.1)
    mark = notify.idle

    async def mark_late(*given: Any, **options: Any) -> bool:
        if not died:
            connection.execute(DEAD)
            await until(lambda: died, "it has another id")
        return await mark(*given, **options)

    monkeypatch.setattr(notify, "idle", mark_late)
    marked = "SELECT count(*) FROM orchestrator.workers WHERE state = 'running' AND idle_until > now()"

    with recorded(events.WorkerDeclaredDead) as died:
        async with working(app):
            await until(lambda: value(connection, marked), "its new row has a mark")


def test_another_worker_runs_the_tasks_of_a_dead_one(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A task that had begun counts a loss and an attempt; a task that was only claimed counts neither."""
    seen: dict[int, tuple[int, int]] = {}

    @app.task(name="work")
    async def work(context: Context) -> None:
        seen[context.id] = (context.attempt, task(connection, context.id).losses)

    claimed, running = work.enqueue().id, work.enqueue().id
    connection.execute(
        "WITH w AS (INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, beat_at, dead_after)"
        " VALUES (gen_random_uuid(), 'gone', 1, '0', '{default}', 1, now() - interval '1 hour', interval '0.1 s')"
        " RETURNING id)"
        " UPDATE orchestrator.tasks_live SET lease = 7, worker_id = w.id, attempt = 1, claimed_at = now(),"
        " status = CASE tasks_live.id WHEN %s THEN 'running' ELSE 'claimed' END,"
        " started_at = CASE tasks_live.id WHEN %s THEN now() END FROM w",
        [running, running],
    )
    with recorded(events.TasksRecovered) as recovered:
        run_until_empty(app)

    assert {claimed: (1, 0), running: (2, 1)} == seen
    assert [events.TasksRecovered(returned=2, dead_lettered=0, workers=1)] == recovered


async def test_a_worker_that_comes_back_soon_holds_a_beacon_again(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """Its listener uses the new id, over the same connection."""
    app = make_app(heartbeat_seconds=0.2)

    @app.task(name="work")
    async def work() -> None: ...

    beacons = "SELECT count(*) FROM orchestrator.workers WHERE beacon IS NOT NULL AND state = 'running'"

    async with working(app):
        for _ in range(3):
            await until(lambda: value(connection, beacons) == 1, "it holds its beacon", seconds=10)
            connection.execute(
                "UPDATE orchestrator.workers SET state = 'dead', beacon = NULL WHERE state = 'running'"
            )
