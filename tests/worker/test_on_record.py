"""Every execution that does not complete its task leaves one row in attempts, at any end; also with max_attempts =
1, and also if the database did not know yet that it had begun."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import LiteralString

import psycopg
import pytest

from orchestrator import Context, Orchestrator, Snooze, events
from orchestrator.maintain import recover
from tests.conftest import MakeApp
from tests.worker.running import DEAD, recorded, status, until, value, working

QUICK = {"poll_seconds": 0.1, "heartbeat_seconds": 0.1, "dead_after_seconds": 0.5}


class Bench:
    """An app with one handler, which never ends the first time, and its executions."""

    def __init__(self, url: str, **settings: float) -> None:
        self.app = Orchestrator(url, **{**QUICK, **settings})
        self.begun = Counter[int]()
        self.first: Callable[[int], object] = id  # what the handler does at its start, the first time

        @self.app.task(name="work", max_attempts=1)
        async def work(context: Context) -> None:
            self.begun[context.id] += 1
            if self.begun[context.id] == 1:
                self.first(context.id)
                await asyncio.Event().wait()

        self.work = work

    async def enqueue(self, count: int = 1) -> list[int]:
        return [(await self.work.aenqueue()).id for _ in range(count)]

    async def all_begun(self, ids: list[int]) -> None:
        await until(lambda: all(self.begun[task_id] for task_id in ids), "they have begun")


@pytest.fixture
def bench(database_url: str) -> Bench:
    return Bench(database_url)


@pytest.fixture
def other(bench: Bench, database_url: str) -> Iterator[psycopg.Connection]:
    """A session that locks each task as soon as it has begun: the statement that marks it running skips locked rows."""
    with psycopg.connect(database_url) as session:
        bench.first = lambda task_id: session.execute(
            "SELECT FROM orchestrator.tasks_live WHERE id = %s FOR UPDATE", [task_id]
        )
        yield session


def records(connection: psycopg.Connection, ids: list[int]) -> list[tuple[int, int, str, bool]]:
    """Return the records of these tasks: the attempt, how it ended, and whether its worker and its start are known."""
    return connection.execute(
        "SELECT task_id, attempt, outcome, worker_id IS NOT NULL AND started_at IS NOT NULL AND lease IS NOT NULL"
        " FROM orchestrator.attempts WHERE task_id = ANY (%s) ORDER BY task_id, id",
        [ids],
    ).fetchall()


async def test_attempts_under_a_lock_on_the_workers_are_on_record(
    bench: Bench, database_url: str, connection: psycopg.Connection
) -> None:
    """Another session's lock on the workers blocks every beat, and the worker cancels its attempts."""

    with recorded(events.WorkerCutOff) as cut_off:
        async with working(bench.app):
            ids = await bench.enqueue(4)
            await bench.all_begun(ids)
            async with await psycopg.AsyncConnection.connect(database_url) as other:
                await other.execute("LOCK TABLE orchestrator.workers IN ACCESS EXCLUSIVE MODE")
                await until(lambda: cut_off, "it finds itself cut off")
            await until(lambda: all(status(connection, n) == "completed" for n in ids), "they ran again")
    await bench.app.aclose()

    assert dict.fromkeys(ids, 2) == dict(bench.begun)
    assert [(n, 1, True) for n in ids] == [
        (n, attempt, known) for n, attempt, _, known in records(connection, ids)
    ]
    assert {outcome for _, _, outcome, _ in records(connection, ids)} <= {"released", "lost"}


async def test_an_attempt_that_is_given_back_after_the_grace_is_on_record(
    database_url: str, connection: psycopg.Connection
) -> None:
    """It does not count as an attempt."""
    bench = Bench(database_url, grace_seconds=0.0)

    async with working(bench.app):
        ids = await bench.enqueue(2)
        await bench.all_begun(ids)
    await bench.app.aclose()

    assert [(n, 1, "released", True) for n in ids] == records(connection, ids)
    assert {("pending", 0)} == set(
        connection.execute("SELECT status, attempt FROM orchestrator.tasks").fetchall()
    )


async def test_an_unmarked_attempt_of_a_worker_that_was_declared_dead_is_on_record(
    bench: Bench, other: psycopg.Connection, connection: psycopg.Connection
) -> None:
    """For the leader it has not begun, and the task is given back. The worker comes back and records the execution."""

    async with working(bench.app):
        (task_id,) = await bench.enqueue()
        await bench.all_begun([task_id])
        # In one transaction, so that the worker hears of it only afterwards, and records nothing before.
        other.execute(DEAD)
        assert "claimed" == status(connection, task_id)
        await until(lambda: recover(other).returned, "it is taken back")
        assert [] == records(other, [task_id])
        other.commit()
        await until(lambda: status(connection, task_id) == "completed", "it ran again")
        await until(lambda: records(connection, [task_id]), "it is reported")
    await bench.app.aclose()

    assert 2 == bench.begun[task_id]
    assert [(task_id, 1, "lost", True)] == records(connection, [task_id])


WISHES: dict[str, LiteralString] = {
    "requeued": "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s",
    "cancelled": "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s",
    "deleted": "DELETE FROM orchestrator.tasks WHERE id = %s",
}


@pytest.mark.parametrize("marked", [True, False], ids=["marked", "unmarked"])
@pytest.mark.parametrize("wish", WISHES)
async def test_a_running_task_that_a_manual_change_takes_away_is_recorded_once(
    bench: Bench, other: psycopg.Connection, connection: psycopg.Connection, wish: str, *, marked: bool
) -> None:
    """The database records it if the task is marked running; the worker records it in any case when it learns of it."""
    if marked:
        bench.first = id

    with recorded(events.LeaseLost) as lost:
        async with working(bench.app):
            (task_id,) = await bench.enqueue()
            if marked:
                await until(lambda: status(connection, task_id) == "running", "it runs")
            else:
                await bench.all_begun([task_id])
            other.execute(WISHES[wish], [task_id])
            other.commit()
            await until(lambda: lost and records(connection, [task_id]), "it is told, and recorded")
    await bench.app.aclose()

    assert [(task_id, 1, "lost", True)] == records(connection, [task_id])


async def test_a_snooze_is_on_record(make_app: MakeApp, connection: psycopg.Connection) -> None:
    """Each call, with the number of the attempt that it does not count as."""
    app = make_app(**QUICK)
    called: list[int] = []

    @app.task(name="work", max_attempts=1)
    async def work() -> None:
        called.append(1)
        if len(called) < 3:
            raise Snooze(after=0)

    async with working(app):
        task_id = (await work.aenqueue()).id
        await until(lambda: status(connection, task_id) == "completed", "it is done")

    assert [(task_id, 1, "snoozed", True)] * 2 == records(connection, [task_id])
    assert 1 == value(connection, "SELECT attempt FROM orchestrator.tasks")
