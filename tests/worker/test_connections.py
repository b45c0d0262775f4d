"""A worker's connections break, one by one or all at once; and it is declared dead and comes back."""

import asyncio
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from tests.worker.outage import Outage
from tests.worker.running import (
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

TASKS = 300


@pytest.mark.parametrize("purpose", ["claims", "outcomes", "listener", "heartbeat"])
def test_a_connection_ended_again_and_again_costs_nothing(
    app: Orchestrator, connection: psycopg.Connection, purpose: str
) -> None:
    """In the middle of a drain: every task runs once and completes, and the loss and the return are events."""
    runs: Counter[int] = Counter()

    @app.task(name="work")
    async def work(context: Context) -> None:
        runs[context.id] += 1
        if sum(runs.values()) % 50 == 0:
            terminate(connection, purpose)

    for _ in range(TASKS):
        work.enqueue()

    async def main() -> list[Any]:
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
        return seen

    seen = asyncio.run(main())

    assert {purpose} == {event.purpose for event in seen}
    assert {1} == set(runs.values())
    assert [] == connection.execute("SELECT FROM orchestrator.attempts").fetchall()


def test_a_listener_that_came_back_hears(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Its rings wake the worker again, long before its poll."""
    app = Orchestrator(app.config.database_url, poll_seconds=60, heartbeat_seconds=0.5)
    started: list[float] = []

    @app.task(name="work")
    async def work() -> None:
        started.append(time.monotonic())

    async def main() -> float:
        with recorded(events.ConnectionRestored) as restored:
            async with working(app):
                await until(lambda: alive(connection, "listener"), "it listens")
                first = backend(connection, "listener")
                terminate(connection, "listener")
                await until(lambda: backend(connection, "listener") not in (None, first), "it listens again")
                await until(
                    lambda: value(
                        connection, "SELECT count(*) FROM orchestrator.workers WHERE idle_until > now()"
                    ),
                    "the worker sleeps",
                )
                begun = time.monotonic()
                await work.aenqueue()
                await until(lambda: started, "the handler starts", seconds=10)
            await app.aclose()
        assert [] == [event for event in restored if event.purpose != "listener"]
        return started[0] - begun

    assert asyncio.run(main()) < 1


def test_an_outage_loses_nothing_and_repeats_nothing(
    app: Orchestrator, connection: psycopg.Connection, outage: Outage
) -> None:
    """Handlers that end while the database is away keep their outcomes until it is back."""
    runs: Counter[int] = Counter()
    go_on = asyncio.Event()

    @app.task(name="work")
    async def work(context: Context) -> str:
        runs[context.id] += 1
        await go_on.wait()
        return "done"

    ids = [work.enqueue().id for _ in range(8)]

    async def main() -> None:
        with recorded(events.ConnectionLost) as lost:
            async with working(app, concurrency=4):
                await until(lambda: statuses(connection).get("running") == 4, "four run")
                outage.begin()
                go_on.set()
                await until(lambda: {"outcomes", "heartbeat"} <= {e.purpose for e in lost}, "it notices")
                assert 4 == statuses(connection)["running"]
                outage.end()
                await until(lambda: statuses(connection) == {"completed": 8}, "all are completed")

    asyncio.run(main())

    assert dict.fromkeys(ids, 1) == dict(runs)
    assert 1 == value(connection, "SELECT count(*) FROM orchestrator.workers"), "it is the same worker still"


def test_somebodys_lock_on_the_tasks_does_not_cost_a_worker_its_life(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The beat touches no task, and the duties beside it do not wait: a long ALTER TABLE declares nobody dead."""
    app = Orchestrator(database_url, poll_seconds=0.2, heartbeat_seconds=0.2, dead_after_seconds=1.5)
    dead_after = 1.5

    @app.task(name="work")
    async def work() -> None: ...

    async def main() -> list[events.Event]:
        with recorded(events.WorkerDeclaredDead, events.TasksRecovered) as happened:
            async with working(app), await psycopg.AsyncConnection.connect(database_url) as other:
                await until(
                    lambda: value(connection, "SELECT count(*) FROM orchestrator.workers"), "it serves"
                )
                await other.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")
                locked = time.monotonic()
                oldest = 0.0
                while time.monotonic() - locked < 2 * dead_after:
                    oldest = max(oldest, beat_age(connection))
                    await asyncio.sleep(0.02)
                await other.rollback()
                enqueued = await work.aenqueue()
                await until(lambda: status(connection, enqueued.id) == "completed", "it serves again")
        await app.aclose()
        assert oldest < dead_after
        return happened

    assert [] == asyncio.run(main())


@pytest.mark.parametrize("colour", ["async", "def"])
def test_who_was_declared_dead_comes_back_under_a_new_id(
    database_url: str, connection: psycopg.Connection, colour: str
) -> None:
    """It drops what it held, its handlers are told, and the tasks run again: lost once, by a cause on record."""
    app = Orchestrator(database_url, poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=0.5)
    told: list[int] = []

    async def on_loop(context: Context) -> int:
        if context.attempt == 1:
            try:
                await asyncio.Event().wait()
            finally:
                told.append(context.attempt)
        return context.attempt

    def in_thread(context: Context) -> int:
        while context.attempt == 1 and not context.cancelled:
            time.sleep(0.005)
        if context.attempt == 1:
            told.append(context.attempt)
        return context.attempt

    work = app.task(name="work")(on_loop if colour == "async" else in_thread)

    async def main() -> tuple[int, list[events.WorkerDeclaredDead]]:
        with recorded(events.WorkerDeclaredDead) as died:
            async with working(app):
                enqueued = await work.aenqueue()
                await until(lambda: status(connection, enqueued.id) == "running", "it runs")
                connection.execute(
                    "UPDATE orchestrator.workers SET state = 'dead', beat_at = now() - interval '1 hour'"
                )
                await until(lambda: status(connection, enqueued.id) == "completed", "it ran again")
        await app.aclose()
        return int(enqueued.id), died

    task_id, died = asyncio.run(main())

    row = task(connection, task_id)
    assert (2, 1, 2) == (row.attempt, row.losses, row.result)
    assert [(1, "lost")] == attempts(connection, task_id)
    assert [1] == told
    assert [(1, row.worker_id)] == [(event.dropped, event.new_worker_id) for event in died]
    states = connection.execute("SELECT id, state FROM orchestrator.workers ORDER BY started_at").fetchall()
    assert [(died[0].worker_id, "dead"), (died[0].new_worker_id, "stopped")] == states


def test_a_new_id_is_adopted_only_with_its_row(database_url: str, connection: psycopg.Connection) -> None:
    """Declared dead while its new row cannot be written: it tries again, and never claims under an id without one."""
    app = Orchestrator(database_url, poll_seconds=0.1, heartbeat_seconds=0.1, dead_after_seconds=0.5)

    @app.task(name="work")
    async def work() -> None: ...

    async def main() -> int:
        with recorded(events.ConnectionLost, events.WorkerDeclaredDead) as seen:
            async with working(app):
                await until(
                    lambda: value(connection, "SELECT count(*) FROM orchestrator.workers"), "it serves"
                )
                connection.execute(
                    "ALTER TABLE orchestrator.workers ADD CONSTRAINT shut CHECK (capacity < 0) NOT VALID"
                )
                connection.execute("DELETE FROM orchestrator.workers")
                await until(lambda: [e for e in seen if "shut" in getattr(e, "reason", "")], "it is refused")
                connection.execute("ALTER TABLE orchestrator.workers DROP CONSTRAINT shut")
                await until(lambda: isinstance(seen[-1], events.WorkerDeclaredDead), "it is back")
                enqueued = await work.aenqueue()
                await until(lambda: status(connection, enqueued.id) == "completed", "it serves again")
        await app.aclose()
        return int(enqueued.id)

    task_id = asyncio.run(main())

    assert [(task(connection, task_id).worker_id,)] == connection.execute(
        "SELECT id FROM orchestrator.workers"
    ).fetchall()


def test_what_a_dead_worker_held_is_run_by_another(app: Orchestrator, connection: psycopg.Connection) -> None:
    """What it had begun counts a loss and an attempt; what it had only claimed counts neither."""
    seen: dict[int, tuple[int, int]] = {}

    @app.task(name="work")
    async def work(context: Context) -> None:
        seen[context.id] = (context.attempt, task(connection, context.id).losses)

    claimed, running = work.enqueue().id, work.enqueue().id
    connection.execute(
        "WITH w AS (INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, beat_at)"
        " VALUES (gen_random_uuid(), 'gone', 1, '0', '{default}', 1, now() - interval '1 hour') RETURNING id)"
        " UPDATE orchestrator.tasks_live SET lease = 7, worker_id = w.id, attempt = 1, claimed_at = now(),"
        " status = CASE tasks_live.id WHEN %s THEN 'running' ELSE 'claimed' END,"
        " started_at = CASE tasks_live.id WHEN %s THEN now() END FROM w",
        [running, running],
    )
    with recorded(events.TasksRecovered) as recovered:
        run_until_empty(app)

    assert {claimed: (1, 0), running: (2, 1)} == seen
    assert [events.TasksRecovered(returned=2, buried=0, workers=1)] == recovered


def terminate(connection: psycopg.Connection, purpose: str) -> None:
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
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
