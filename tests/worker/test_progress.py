"""A handler's progress: visible while it runs, fenced, and it never delays the handler."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events, finish
from tests.conftest import MakeApp
from tests.worker.ledger import both_colours
from tests.worker.outage import Outage
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

SHOWN = "SELECT progress FROM orchestrator.running_tasks WHERE id = %s"


@both_colours
async def test_progress_is_seen_while_the_task_runs(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """In the view for operators. The last value counts, and stays on the row of the ended task."""
    steps = [threading.Event() for _ in range(2)]

    def report(context: Context, step: int) -> None:
        for part in range(10):
            context.progress({"step": step, "part": part})

    async def on_loop(context: Context) -> None:
        for number, step in enumerate(steps):
            report(context, number)
            await asyncio.to_thread(step.wait, 20)
        context.progress(1.0)

    def in_thread(context: Context) -> None:
        for number, step in enumerate(steps):
            report(context, number)
            step.wait(20)
        context.progress(1.0)

    working_on = app.task(name="work")(on_loop if colour == "async" else in_thread)

    async with working(app):
        handle = await working_on.aenqueue()
        for number, step in enumerate(steps):
            expected = {"step": number, "part": 9}
            await until(lambda e=expected: shown(connection, handle.id) == e, "it is shown")  # type: ignore[misc]
            step.set()
        await until(lambda: status(connection, handle.id) == "completed", "it ends")

    assert 1.0 == task(connection, int(handle.id)).progress


def shown(connection: psycopg.Connection, task_id: int) -> Any:
    row = connection.execute(SHOWN, [task_id]).fetchone()
    return None if row is None else row[0]


def test_the_last_progress_of_a_failed_attempt_is_kept(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """It shows how far the attempt came."""

    @app.task(name="work", max_attempts=1)
    async def work(context: Context) -> None:
        for percent in (0.25, 0.5, 0.75):
            context.progress(percent)
        raise ValueError("no more")

    handles = [work.enqueue() for _ in range(30)]
    run_until_empty(app)

    assert {("dead_letter", 0.75)} == {
        (task(connection, handle.id).status, task(connection, handle.id).progress) for handle in handles
    }


async def test_a_worker_writes_all_progress_in_one_statement_a_second(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For any number of tasks and reports."""
    written: list[dict[Any, str]] = []
    report = finish.report

    async def counted(connection: Any, reports: Any) -> list[Any]:
        written.append(dict(reports))
        return await report(connection, reports)

    monkeypatch.setattr(finish, "report", counted)
    release = asyncio.Event()

    @app.task(name="work")
    async def work(context: Context) -> None:
        while not release.is_set():
            context.progress([context.id])
            await asyncio.sleep(0.01)

    handles = [work.enqueue() for _ in range(10)]

    async with working(app):
        await until(lambda: any(len(batch) == 10 for batch in written), "all are in one")
        before = len(written)
        begun = asyncio.get_running_loop().time()
        await until(lambda: len(written) >= before + 2, "two more")
        assert asyncio.get_running_loop().time() - begun > 0.9
        release.set()

    assert [[handle.id] for handle in handles] == [task(connection, handle.id).progress for handle in handles]


def test_a_report_under_a_void_lease_changes_nothing(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """Fenced like each write of a worker: the row of the next attempt does not change."""
    app = make_app(heartbeat_seconds=10.0, poll_seconds=0.2)
    release = threading.Event()

    @app.task(name="work")
    def work(context: Context) -> None:
        if context.metadata and not release.is_set():
            connection.execute(
                "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s", [context.id]
            )
            context.progress("too late")
            release.set()

    handle = work.using(metadata={"first": True}).enqueue()
    run_until_empty(app)

    assert ("cancelled", None) == (status(connection, handle.id), task(connection, handle.id).progress)


async def test_a_lock_on_a_row_keeps_no_other_report_waiting(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Nor an outcome. A locked row is skipped, and the next report writes it."""
    release = asyncio.Event()

    @app.task(name="work")
    async def work(context: Context) -> None:
        while not release.is_set():
            context.progress(context.id)
            await asyncio.sleep(0.01)

    handles = [work.enqueue() for _ in range(2)]

    async with working(app):
        await until(lambda: all(status(connection, h.id) == "running" for h in handles), "they run")
        with psycopg.connect(app.config.database_url) as operator:
            lock = "SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE"
            operator.execute(lock, [handles[0].id])
            connection.execute(
                "UPDATE orchestrator.tasks_live SET progress = NULL WHERE id = %s", [handles[1].id]
            )
            await until(lambda: shown(connection, handles[1].id) == handles[1].id, "the other is shown")
        release.set()
        await until(lambda: all(status(connection, h.id) == "completed" for h in handles), "they end")


async def test_a_value_that_met_a_lock_is_written_after_it(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the handler reports nothing more, for example at its start, when the worker marks the row running."""
    skipped: list[Any] = []
    report = finish.report

    async def noted(connection: Any, reports: Any) -> list[Any]:
        skipped.extend(unwritten := await report(connection, reports))
        return unwritten

    monkeypatch.setattr(finish, "report", noted)
    locked, release = asyncio.Event(), asyncio.Event()

    @app.task(name="work")
    async def work(context: Context) -> None:
        await locked.wait()
        context.progress("begun")
        await release.wait()

    handle = work.enqueue()

    async with working(app):
        await until(lambda: status(connection, handle.id) == "running", "it runs")
        with psycopg.connect(app.config.database_url) as operator:
            operator.execute("SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [handle.id])
            locked.set()
            await until(lambda: skipped, "the row is skipped")
        await until(lambda: shown(connection, handle.id) == "begun", "it is shown")
        release.set()


def test_values_that_cannot_be_written_do_not_gather(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection for progress alone is refused, for example by a limit. Ended attempts leave no value behind."""
    sizes: list[int] = []

    async def refused(_connection: Any, reports: Any) -> list[Any]:
        sizes.append(len(reports))
        raise psycopg.errors.TooManyConnections

    monkeypatch.setattr(finish, "report", refused)

    @app.task(name="work")
    async def work(context: Context) -> None:
        context.progress("begun")

    work.enqueue_many([{}] * 40)
    with recorded(events.ConnectionLost):
        run_until_empty(app, concurrency=4)

    assert {"completed": 40} == statuses(connection)
    assert sizes
    assert max(sizes) <= 4


async def test_a_report_waits_for_no_database(
    app: Orchestrator, connection: psycopg.Connection, outage: Outage
) -> None:
    """The handler goes on, the report is lost, and the end of the attempt is the same."""
    ended: list[int] = []

    @app.task(name="work")
    async def work(context: Context) -> str:
        await asyncio.to_thread(outage.begin)
        for part in range(100):
            context.progress(part)
        ended.append(context.id)
        return "done"

    handle = work.enqueue()

    with recorded(events.ConnectionLost):
        async with working(app):
            await until(lambda: ended, "it goes on")
            outage.end()
            await until(lambda: status(connection, handle.id) == "completed", "it ends")

    assert (1, "done") == (task(connection, handle.id).attempt, task(connection, handle.id).result)


def test_a_report_that_is_refused_costs_no_worker(app: Orchestrator, connection: psycopg.Connection) -> None:
    """An event reports it, and the end of the attempt is the same."""
    connection.execute("ALTER TABLE orchestrator.tasks_live ADD CHECK (progress IS DISTINCT FROM '1')")

    @app.task(name="work")
    async def work(context: Context) -> None:
        context.progress(context.id)

    handles = [work.enqueue() for _ in range(2)]
    with recorded(events.DutyFailed) as failed:
        run_until_empty(app)

    assert ["completed"] * 2 == [status(connection, handle.id) for handle in handles]
    assert {("progress", "CheckViolation")} == {(event.duty, event.error_class) for event in failed}


@pytest.mark.parametrize(
    ("unstorable", "why"),
    [
        ("x" * 17_000, "progress takes 17,002 bytes"),
        ({1, 2}, "progress is a set"),
        (float("nan"), "progress is nan"),
    ],
    ids=["long", "set", "nan"],
)
def test_progress_that_cannot_be_stored_is_refused_at_the_call(
    app: Orchestrator, connection: psycopg.Connection, unstorable: object, why: str
) -> None:
    """Like a result."""

    @app.task(name="work", max_attempts=1)
    async def work(context: Context) -> None:
        context.progress(unstorable)

    handle = work.enqueue()
    run_until_empty(app)

    assert task(connection, handle.id).error["message"].startswith(why)


def test_a_retry_keeps_the_old_progress_until_its_first_report(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """What the first attempt said is there until the second says something."""

    @app.task(name="work", backoff=AT_ONCE)
    async def work(context: Context) -> None:
        context.progress(context.attempt)
        if context.attempt == 1:
            raise ValueError("once more")

    handle = work.enqueue()
    run_until_empty(app)

    assert (2, [(1, "failed")]) == (task(connection, handle.id).progress, attempts(connection, handle.id))
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.running_tasks")
