"""When a worker with --until-empty ends, and when it does not."""

import asyncio
import time
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Context, Orchestrator
from tests.conftest import MakeApp
from tests.worker.running import hire, run_until_empty, status, until, value

LOOKED_AGAIN: LiteralString = """
    SELECT max(state_change) > (SELECT max(finished_at) + interval '0.6 s' FROM orchestrator.tasks)
    FROM pg_stat_activity
    WHERE application_name = 'orchestrator claims' AND datname = current_database()
"""


def test_until_empty_waits_for_retries_and_for_nothing_else_in_the_future(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """It waits for a retry that is due in half a second, but not for a scheduled first attempt, a paused queue, or
    another queue."""
    from_now = []

    @app.task(name="shaky")
    async def shaky(context: Context) -> None:
        from_now.append(context.attempt)
        if context.attempt == 1:
            raise ValueError("once")

    retried = shaky.enqueue()
    future = shaky.using(delay=3600).enqueue()
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('paused', 'paused')")
    paused = shaky.using(queue="paused").enqueue()
    other = shaky.using(queue="other").enqueue()
    run_until_empty(app, queues=["default", "paused"])

    ids = [retried.id, future.id, paused.id, other.id]
    assert ["completed", "scheduled", "pending", "pending"] == [status(connection, i) for i in ids]
    assert [1, 2] == from_now


@pytest.mark.parametrize("state", ["claimed", "running"])
async def test_until_empty_waits_for_tasks_that_others_hold(
    app: Orchestrator, connection: psycopg.Connection, state: str
) -> None:
    """Such a task may come back, so the worker waits for its outcome."""

    @app.task(name="work")
    async def work() -> None: ...

    held = work.enqueue()
    lend(connection, held.id, state)

    worker = asyncio.create_task(app.arun_worker(until_empty=True))
    marker = await work.aenqueue()
    await until(lambda: status(connection, marker.id) == "completed", "the worker has done what it could")
    await until(
        lambda: worker.done() or value(connection, LOOKED_AGAIN),
        "the worker looks again, long after it could have ended",
    )
    assert not worker.done()
    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [held.id])
    async with asyncio.timeout(5):
        await worker


async def test_until_empty_runs_tasks_that_become_ready_meanwhile(app: Orchestrator) -> None:
    """For example tasks that tasks enqueue."""
    depth: list[int] = []

    @app.task(name="chain")
    async def chain(left: int) -> None:
        depth.append(left)
        if left:
            await chain.aenqueue(left=left - 1)

    await chain.aenqueue(left=5)
    async with asyncio.timeout(30):
        await app.arun_worker(until_empty=True, concurrency=1)

    assert [5, 4, 3, 2, 1, 0] == depth


def test_an_empty_queue_ends_it_at_once(make_app: MakeApp) -> None:
    """It does not wait for a poll."""
    app = make_app(poll_seconds=60.0)
    begun = time.monotonic()

    run_until_empty(app)

    assert time.monotonic() - begun < 30


def lend(connection: psycopg.Connection, task_id: int, state: str) -> None:
    """Let a live worker on another host hold a task."""
    connection.execute(
        "UPDATE orchestrator.tasks_live SET status = %s, lease = 7, worker_id = %s, attempt = 1,"
        " claimed_at = now(), started_at = CASE WHEN %s = 'running' THEN now() END WHERE id = %s",
        [state, hire(connection), state, task_id],
    )


def test_until_empty_does_not_wait_for_an_unknown_type(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Not even if the task has failed before, under a worker that knew it."""
    task_id = value(connection, "SELECT orchestrator.enqueue('renamed')")
    connection.execute("UPDATE orchestrator.tasks_live SET attempt = 1 WHERE id = %s", [task_id])

    run_until_empty(app)

    assert ("scheduled", "UnknownType") == (
        status(connection, task_id),
        value(connection, "SELECT error ->> 'class' FROM orchestrator.tasks WHERE id = %s", task_id),
    )
