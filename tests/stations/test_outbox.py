"""The outbox: with any locks and connection failures, each outcome is written once, and none delays another."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from orchestrator import events
from orchestrator.finish import Outbox, outbox
from orchestrator.finish.outbox import BYTES_MAX
from orchestrator.postgres import connect
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Completed, End, Failed, Fault, Outcome
from tests.patience import PATIENCE_SECONDS
from tests.schema.rows import one, put, read
from tests.stations.worker import Mate
from tests.worker.running import until

NAME = "outbox under test"
WAIT_SECONDS = PATIENCE_SECONDS


def of(heard: list[events.Event], kind: type[events.Event]) -> list[int]:
    """Return the ids of the tasks in events of a kind."""
    return [event.task_id for event in heard if isinstance(event, kind)]  # type: ignore[attr-defined] # task events


def taken(connection: psycopg.Connection, worker: Mate, count: int) -> list[Claimed]:
    """Let a worker hold this number of running tasks."""
    for _ in range(count):
        put(connection)
    return worker.begin(worker.claim(batch_size=count))


@asynccontextmanager
async def running(url: str, *, limit: int = 1000) -> AsyncIterator[Outbox]:
    """Run an outbox on a session of its own. At the end everything must have been written."""
    session = Session(connect.conninfo(url, application_name=NAME), purpose="outcomes")
    box = Outbox(session, limit=limit, put_off=lambda: None)
    sending = asyncio.create_task(box.run())
    try:
        yield box
        async with asyncio.timeout(WAIT_SECONDS):
            await box.flush()
        assert 0 == box.count
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await session.close()


def statuses(connection: psycopg.Connection, tasks: list[Claimed]) -> list[str]:
    return [read(connection, task.id, "status") for task in tasks]


def go(work: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 2 * WAIT_SECONDS))


def test_each_outcome_is_written(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """More than one batch; each outcome is written once and emits its event once."""
    tasks = taken(connection, worker, 1200)

    async def work() -> None:
        async with running(database_url) as box:
            for task in tasks:
                box.put(Outcome(task, Completed(None), worker_id=worker.id))

    go(work)

    assert {"completed"} == set(statuses(connection, tasks))
    assert [task.id for task in tasks] == of(heard, events.TaskCompleted)


def test_an_open_manual_update_delays_only_its_own_rows(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """The other rows of the batch are written, and so are later ones; the locked ones follow when it ends."""
    *batch, later = taken(connection, worker, 6)
    locked, free = batch[:2], batch[2:]

    async def work() -> None:
        with psycopg.connect(database_url) as operator:
            ids = [task.id for task in locked]
            operator.execute("UPDATE orchestrator.tasks SET priority = 80 WHERE id = ANY(%s)", [ids])
            async with running(database_url) as box:
                for task in batch:
                    box.put(Outcome(task, Completed(None), worker_id=worker.id))
                await until(lambda: {"completed"} == set(statuses(connection, free)), "the free are written")
                box.put(Outcome(later, Completed(None), worker_id=worker.id))
                await until(lambda: "completed" == read(connection, later.id, "status"), "the later one too")
                await until(lambda: box.count == len(ids), "its answer is read")
                assert ["running", "running"] == statuses(connection, locked)
                operator.commit()

    go(work)

    assert {("completed", 80)} == {read(connection, task.id, "status", "priority") for task in locked}
    assert sorted(task.id for task in (*batch, later)) == sorted(of(heard, events.TaskCompleted))
    assert [] == of(heard, events.StaleOutcome)


def test_locked_outcomes_count_against_the_limit(
    connection: psycopg.Connection, database_url: str, worker: Mate
) -> None:
    """They use memory as well. While the outbox is full, no new task begins."""
    tasks = taken(connection, worker, 2)

    async def work() -> None:
        with psycopg.connect(database_url) as operator:
            operator.execute("LOCK TABLE orchestrator.tasks_live IN SHARE MODE")
            async with running(database_url, limit=2) as box:
                for task in tasks:
                    box.put(Outcome(task, Completed(None), worker_id=worker.id))
                for _ in range(3):
                    await until(lambda: is_waiting_for_a_lock(connection), "a batch waits for the lock")
                    await until(lambda: not is_waiting_for_a_lock(connection), "and gives up")
                assert (2, True) == (box.count, box.is_full)
                operator.commit()
                await box.flush()
                assert not box.is_full

    go(work)

    assert {"completed"} == set(statuses(connection, tasks))


def is_waiting_for_a_lock(connection: psycopg.Connection) -> bool:
    query = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock')"
    return bool(one(connection, query, [NAME]))


@pytest.mark.parametrize(
    ("count", "size", "bytes_max"),
    [
        pytest.param(2, 0, BYTES_MAX, id="in number"),
        pytest.param(1, 1_100_000, 1_000_000, id="in bytes"),
        pytest.param(1, 70_000_000, BYTES_MAX, id="in as many bytes as it may have", marks=pytest.mark.long),
    ],
)
def test_an_outbox_is_full(
    connection: psycopg.Connection,
    database_url: str,
    worker: Mate,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    size: int,
    bytes_max: int,
) -> None:
    """It refuses nothing, but the worker begins no new task. After a write there is room again."""
    monkeypatch.setattr(outbox, "BYTES_MAX", bytes_max)
    result = f'"{"x" * size}"' if size else None
    tasks = taken(connection, worker, count)
    session = Session(connect.conninfo(database_url), purpose="outcomes")
    rooms = []

    async def work() -> None:
        box = Outbox(session, limit=2, put_off=lambda: None, room=lambda: rooms.append(box.is_full))
        for task in tasks:
            assert not box.is_full
            box.put(Outcome(task, Completed(result), worker_id=worker.id))
        assert box.is_full
        sending = asyncio.create_task(box.run())
        await box.flush()
        sending.cancel()
        await session.close()

    go(work)

    assert [False] == rooms
    assert {"completed"} == set(statuses(connection, tasks))


def test_large_results_go_in_several_statements(
    connection: psycopg.Connection, database_url: str, worker: Mate
) -> None:
    """A thousand of the largest would exceed PostgreSQL's limit."""
    tasks = taken(connection, worker, 5)
    session = Session(connect.conninfo(database_url), purpose="outcomes")
    batches: list[int] = []

    async def work() -> None:
        box = Outbox(session, limit=10, put_off=lambda: None)
        box.written = lambda written: batches.append(len(written))
        for task in tasks:
            box.put(Outcome(task, Completed('"' + "x" * 3_000_000 + '"'), worker_id=worker.id))
        sending = asyncio.create_task(box.run())
        await box.flush()
        sending.cancel()
        await session.close()

    go(work)

    assert [2, 2, 1] == batches
    assert {"completed"} == set(statuses(connection, tasks))


def test_a_result_that_postgresql_refuses_makes_only_its_task_a_dead_letter(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """The others of its batch are written. The dead letter has the reason, without the result."""
    tasks = taken(connection, worker, 5)
    result_with_nul = '{"token": "s3cret\\u0000"}'

    async def work() -> None:
        async with running(database_url) as box:
            for task in tasks:
                result = result_with_nul if task is tasks[2] else None
                box.put(Outcome(task, Completed(result), worker_id=worker.id))

    go(work)

    done = "completed"
    assert [done, done, "dead_letter", done, done] == statuses(connection, tasks)
    error = read(connection, tasks[2].id, "error")
    assert "OutcomeRefused" == error["class"]
    assert "unsupported Unicode escape sequence" in error["message"]
    assert "s3cret" not in str(error)
    assert [tasks[2].id] == of(heard, events.TaskDeadLettered)


def test_a_batch_survives_the_death_of_its_backend(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """In the middle of a statement: it is sent again on a new connection."""
    tasks = taken(connection, worker, 20)

    async def work() -> None:
        with psycopg.connect(database_url) as operator:
            operator.execute("SELECT FROM orchestrator.tasks WHERE id = %s FOR UPDATE", [tasks[0].id])
            async with running(database_url) as box:
                for task in tasks:
                    box.put(Outcome(task, Completed(None), worker_id=worker.id))
                await until(lambda: is_waiting_for_a_lock(connection), "the server has the batch")
                assert 1 == terminate(connection)
                operator.rollback()

    go(work)

    assert {"completed"} == set(statuses(connection, tasks))
    assert sorted(task.id for task in tasks) == sorted(of(heard, events.TaskCompleted))
    assert [] == of(heard, events.StaleOutcome)
    assert any(isinstance(event, events.ConnectionLost) for event in heard)


def test_outcomes_survive_terminations_all_along(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """With the backend terminated at any time, each outcome is written once, and none counts as stale."""
    tasks = taken(connection, worker, 300)

    async def work() -> None:
        async with running(database_url) as box:
            for n, task in enumerate(tasks):
                box.put(Outcome(task, Completed(None), worker_id=worker.id))
                if n % 60 == 30:
                    await until(lambda: terminate(connection) > 0, "there is a backend to end")

    go(work)

    assert {"completed"} == set(statuses(connection, tasks))
    assert sorted(task.id for task in tasks) == sorted(of(heard, events.TaskCompleted))
    assert [] == of(heard, events.StaleOutcome)


def terminate(connection: psycopg.Connection) -> int:
    """End the outbox's backends. Return their number."""
    query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = %s"
    return int(one(connection, query, [NAME]))


@pytest.mark.parametrize("end", [Completed(None), Failed(Fault("ValueError", ""), "failed", 1)])
def test_an_outcome_whose_answer_was_lost_is_no_stale_one(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event], end: End
) -> None:
    """The first statement wrote it; the second returns what the first would have returned."""
    (task,) = taken(connection, worker, 1)
    worker.finish(task, end)

    async def work() -> None:
        async with running(database_url) as box:
            box.put(Outcome(task, end, worker_id=worker.id))

    go(work)

    assert [task.id] == of(heard, events.TaskCompleted) + of(heard, events.TaskFailed)
    assert [] == of(heard, events.StaleOutcome)


def test_a_stale_outcome_is_reported(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """It is dropped, and the others of its batch are written."""
    requeued, left = taken(connection, worker, 2)
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [requeued.id])

    async def work() -> None:
        async with running(database_url) as box:
            for task in (requeued, left):
                box.put(Outcome(task, Completed(None), worker_id=worker.id))

    go(work)

    assert [requeued.id] == of(heard, events.StaleOutcome)
    assert [left.id] == of(heard, events.TaskCompleted)
    assert ["pending", "completed"] == statuses(connection, [requeued, left])


def test_two_outcomes_of_one_task_are_distinguished(
    connection: psycopg.Connection, database_url: str, worker: Mate, heard: list[events.Event]
) -> None:
    """A crashed server lost a claim, and the same worker has claimed the task again and run it: one of its two
    successes is written."""
    (first,) = taken(connection, worker, 1)
    connection.execute("UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s", [first.id])
    second = worker.take_one()

    async def work() -> None:
        async with running(database_url) as box:
            for task in (first, second):
                box.put(Outcome(task, Completed(None), worker_id=worker.id))

    go(work)

    assert [first.id] == of(heard, events.StaleOutcome)
    assert [second.id] == of(heard, events.TaskCompleted)
    assert second.lease == one(connection, "SELECT lease FROM orchestrator.tasks_done")
