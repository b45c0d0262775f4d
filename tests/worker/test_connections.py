"""A worker's connections break, one by one or all at once."""

import asyncio
import time
from collections import Counter
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from tests.conftest import MakeApp
from tests.worker.outage import Outage
from tests.worker.running import (
    recorded,
    status,
    statuses,
    task,
    until,
    value,
    working,
)

TASKS = 300
CLAIMING: LiteralString = """
    SELECT count(*)
    FROM pg_stat_activity
    WHERE query LIKE '-- Claim up to%%' AND wait_event_type = 'Lock' AND datname = current_database()
"""


@pytest.mark.parametrize("purpose", ["claims", "outcomes", "listener", "heartbeat"])
async def test_a_connection_ended_again_and_again_costs_nothing(
    app: Orchestrator, connection: psycopg.Connection, purpose: str
) -> None:
    """In the middle of a backlog: every task runs once and completes, and there are events for the loss and the
    return."""
    runs: Counter[int] = Counter()

    @app.task(name="work")
    async def work(context: Context) -> None:
        runs[context.id] += 1
        if sum(runs.values()) % 50 == 0:
            terminate(connection, purpose)

    for _ in range(TASKS):
        work.enqueue()

    with recorded(events.ConnectionLost, events.ConnectionRestored) as seen:
        async with working(app, concurrency=10):
            await until(lambda: statuses(connection) == {"completed": TASKS}, "all are completed")
            await until(
                lambda: (
                    {type(e) for e in seen if e.purpose == purpose}
                    == {events.ConnectionLost, events.ConnectionRestored}
                ),
                f"{purpose} was lost and came back",
            )

    assert {purpose} == {event.purpose for event in seen}
    assert {1} == set(runs.values())
    assert [] == connection.execute("SELECT FROM orchestrator.attempts").fetchall()


async def test_a_listener_that_came_back_receives_notifications(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Notifications wake the worker again, long before its poll."""
    app = Orchestrator(app.config.database_url, poll_seconds=60, heartbeat_seconds=0.5)
    started: list[float] = []

    @app.task(name="work")
    async def work() -> None:
        started.append(time.monotonic())

    with recorded(events.ConnectionRestored) as restored:
        async with working(app):
            await until(lambda: alive(connection, "listener"), "it listens")
            first = backend(connection, "listener")
            terminate(connection, "listener")
            # Rung for while nobody listened: found as soon as it listens again.
            await work.aenqueue()
            await until(lambda: started, "the handler starts", seconds=10)
            await until(lambda: backend(connection, "listener") not in (None, first), "it listens again")
            await until(
                lambda: value(
                    connection, "SELECT count(*) FROM orchestrator.workers WHERE idle_until > now()"
                ),
                "the worker sleeps",
            )
            begun = time.monotonic()
            await work.aenqueue()
            await until(lambda: len(started) > 1, "the handler starts", seconds=10)
        await app.aclose()
    assert [] == [event for event in restored if event.purpose != "listener"]

    assert started[1] - begun < 1


async def test_a_claim_whose_answer_was_lost_is_given_back(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A task that a live worker holds in the database, and does not know of, runs all the same, uncharged."""

    def claims() -> object:
        # The worker may have claimed, and found nothing, before the lock was taken.
        connection.execute("SELECT pg_notify('orchestrator', 'default')")
        return value(connection, CLAIMING)

    @app.task(name="work")
    async def work(context: Context) -> int:
        return context.attempt

    with recorded(events.GhostsReleased) as released:
        async with working(app):
            await until(lambda: alive(connection, "claims"), "it serves")
            connection.execute("SELECT orchestrator.pause_queue('default')")
            ghost = await work.aenqueue()
            connection.execute(
                "UPDATE orchestrator.tasks_live SET status = 'claimed', lease = 7, attempt = 1, claimed_at = now(),"
                " worker_id = (SELECT id FROM orchestrator.workers)"
            )
            connection.execute("SELECT orchestrator.resume_queue('default')")
            with psycopg.connect(app.config.database_url) as other:
                other.execute("LOCK TABLE orchestrator.queues IN ACCESS EXCLUSIVE MODE")
                await until(claims, "a claim is on its way")
                terminate(connection, "claims")
            await until(lambda: status(connection, ghost.id) == "completed", "the ghost ran")
    assert [events.GhostsReleased(1)] == released

    row = task(connection, int(ghost.id))
    assert (1, 1, 0) == (row.result, row.attempt, row.losses)


async def test_an_outage_loses_nothing_and_repeats_nothing(
    app: Orchestrator, connection: psycopg.Connection, outage: Outage
) -> None:
    """Handlers that end during the outage keep their outcomes until the database is back."""
    runs: Counter[int] = Counter()
    go_on = asyncio.Event()

    @app.task(name="work")
    async def work(context: Context) -> str:
        runs[context.id] += 1
        await go_on.wait()
        return "done"

    ids = [work.enqueue().id for _ in range(8)]

    with recorded(events.ConnectionLost) as lost:
        async with working(app, concurrency=4):
            await until(lambda: statuses(connection).get("running") == 4, "four run")
            outage.begin()
            go_on.set()
            # One connection is tried at a time; which one says so, and which ones wait for it, is open.
            await until(lambda: "heartbeat" in {e.purpose for e in lost}, "it notices")
            assert 4 == statuses(connection)["running"]
            outage.end()
            await until(lambda: statuses(connection) == {"completed": 8}, "all are completed")

    assert dict.fromkeys(ids, 1) == dict(runs)
    assert 1 == value(connection, "SELECT count(*) FROM orchestrator.workers"), "it is the same worker still"


async def test_a_lock_on_the_tasks_makes_no_worker_dead(
    make_app: MakeApp, database_url: str, connection: psycopg.Connection
) -> None:
    """The beat touches no task, and the duties beside it do not wait: a long ALTER TABLE makes no worker dead."""
    app = make_app(poll_seconds=0.2, heartbeat_seconds=0.2, dead_after_seconds=1.5)
    dead_after = 1.5

    @app.task(name="work")
    async def work() -> None: ...

    with recorded(events.WorkerDeclaredDead, events.TasksRecovered) as happened:
        async with working(app), await psycopg.AsyncConnection.connect(database_url) as other:
            await until(lambda: value(connection, "SELECT count(*) FROM orchestrator.workers"), "it serves")
            await other.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")
            locked = time.monotonic()
            oldest = 0.0
            while time.monotonic() - locked < 2 * dead_after:
                oldest = max(oldest, beat_age(connection))
                await asyncio.sleep(0.02)
            await other.rollback()
            enqueued = await work.aenqueue()
            await until(lambda: status(connection, enqueued.id) == "completed", "it serves again")
    assert oldest < dead_after

    assert [] == happened


def terminate(connection: psycopg.Connection, purpose: str) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        " WHERE application_name = %s AND datname = current_database()",
        [f"orchestrator {purpose}"],
    )


def backend(connection: psycopg.Connection, purpose: str) -> int | None:
    row = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
        " AND state = 'idle'",
        [f"orchestrator {purpose}"],
    ).fetchone()
    return None if row is None else int(row[0])


def alive(connection: psycopg.Connection, purpose: str) -> bool:
    return backend(connection, purpose) is not None


def beat_age(connection: psycopg.Connection) -> float:
    return float(
        value(connection, "SELECT date_part('epoch', clock_timestamp() - beat_at) FROM orchestrator.workers")
    )
