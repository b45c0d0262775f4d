"""Which tasks a worker takes, in which order, and when: through real workers."""

import asyncio
import time
from datetime import timedelta

import psycopg

from orchestrator import Backoff, Context, Orchestrator, events
from tests.schema.rows import sleeping_worker
from tests.worker.running import (
    asleep,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    value,
    working,
)

LONG_BEFORE_A_POLL = timedelta(seconds=10)


def test_higher_first_and_fifo_inside_a_priority(app: Orchestrator) -> None:
    """With one slot the order of execution is the order of the queue."""
    order: list[str] = []

    @app.task(name="note")
    async def note(name: str) -> None:
        order.append(name)

    for name in ("a", "b", "c"):
        for priority in ("low", "critical", "normal", "high"):
            note.using(priority=priority).enqueue(name=f"{priority} {name}")
    run_until_empty(app, concurrency=1)

    expected = [f"{p} {n}" for p in ("critical", "high", "normal", "low") for n in ("a", "b", "c")]
    assert expected == order


def test_slots_go_to_the_queues_in_turn(app: Orchestrator) -> None:
    """Slots, not claims: with claims of any size, no backlogged queue is ever more than a slot or two ahead."""
    order: list[str] = []

    @app.task(name="note")
    async def note(context: Context) -> None:
        order.append(context.queue)

    queues = ("first", "second", "third")
    for queue in queues:
        note.using(queue=queue).enqueue_many({} for _ in range(60))
    run_until_empty(app, queues=queues, concurrency=7)

    assert 180 == len(order)
    for served in range(1, 150):
        counts = [order[:served].count(queue) for queue in queues]
        assert max(counts) - min(counts) <= 2, f"after {served}: {counts}"


async def test_a_paused_queue_is_left_alone_until_resumed(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A pause takes effect at once, for a running worker, too. The resumption wakes the worker."""

    @app.task(name="work", queue="paused")
    async def work() -> None: ...

    @app.task(name="other")
    async def other() -> None: ...

    async with working(app, queues=["paused", "default"]):
        first = await work.aenqueue()
        await until(lambda: status(connection, first.id) == "completed", "the queue is served")
        connection.execute("SELECT orchestrator.pause_queue('paused')")
        held, free = await work.aenqueue(), await other.aenqueue()
        await until(lambda: status(connection, free.id) == "completed", "the other queue is served")
        assert "pending" == status(connection, held.id)
        connection.execute("SELECT orchestrator.resume_queue('paused')")
        await until(lambda: status(connection, held.id) == "completed", "the queue is served again")


def test_only_the_named_queues_are_served(app: Orchestrator, connection: psycopg.Connection) -> None:
    """A worker for mail ignores reports, and ends without a wait for them."""

    @app.task(name="work")
    async def work() -> None: ...

    mine, theirs = work.using(queue="mail").enqueue(), work.using(queue="reports").enqueue()
    run_until_empty(app, queues=["mail"])

    assert ["completed", "pending"] == [status(connection, mine.id), status(connection, theirs.id)]


async def test_scheduled_tasks_start_when_due(app: Orchestrator, connection: psycopg.Connection) -> None:
    """On an idle worker that polls once a minute, and on a busy one; enqueued before its start, and after."""
    app = quiet(app)
    enough = asyncio.Event()

    @app.task(name="work")
    async def work() -> None: ...

    @app.task(name="busy")
    async def busy() -> None:
        await enough.wait()

    ids = [(await work.using(delay=0.4).aenqueue()).id]
    async with working(app, concurrency=2):
        ids += [(await work.using(delay=delay).aenqueue()).id for delay in (0.5, 0.8)]
        await until(lambda: status(connection, ids[-1]) == "completed", "those due are done, one by one")
        endless = await busy.aenqueue()
        await until(lambda: status(connection, endless.id) == "running", "a slot is taken for good")
        ids.append((await work.using(delay=0.5).aenqueue()).id)
        await until(lambda: status(connection, ids[-1]) == "completed", "the one beside it is done")
        enough.set()

    for task_id in ids:
        row = task(connection, task_id)
        assert timedelta(0) <= row.started_at - row.run_at < LONG_BEFORE_A_POLL


async def test_a_nearer_time_from_a_manual_change_is_kept(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """UPDATE … SET run_at on a waiting task: the idle worker is notified."""
    app = quiet(app)

    @app.task(name="work")
    async def work() -> None: ...

    async with working(app):
        enqueued = await work.using(delay=3600).aenqueue()
        await until(lambda: asleep(connection), "the worker sleeps")
        connection.execute(
            "UPDATE orchestrator.tasks SET run_at = now() + interval '0.3 s' WHERE id = %s", [enqueued.id]
        )
        await until(lambda: status(connection, enqueued.id) == "completed", "it ran", seconds=10)

    row = task(connection, int(enqueued.id))
    assert timedelta(0) <= row.started_at - row.run_at < LONG_BEFORE_A_POLL


async def test_a_notification_wakes_an_idle_worker(app: Orchestrator, connection: psycopg.Connection) -> None:
    """With a poll once a minute, the time from the enqueue to the handler's start is far less than a second."""
    app = quiet(app)
    started: list[float] = []

    @app.task(name="work")
    async def work() -> None:
        started.append(time.monotonic())

    waits = []
    async with working(app):
        for n in range(3):
            await until(lambda: asleep(connection), "the worker sleeps")
            # Past its last look (it looks again after 2, 10, 50 and 250 ms): only the ring can wake it.
            await past_the_looks(connection)
            begun = time.monotonic()
            await work.aenqueue()
            await until(lambda n=n: len(started) > n, "the handler starts", seconds=10)  # type: ignore[misc]
            waits.append(started[-1] - begun)

    assert max(waits) < 1


def test_tasks_that_become_due_for_others_wake_them(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A worker makes all due tasks pending: also tasks of queues that it does not serve, and more than it has slots
    for."""
    app = quiet(app)

    @app.task(name="work")
    async def work() -> None:
        await asyncio.sleep(0.01)

    async def main() -> list[str]:
        heard: list[str] = []

        def listen(count: int) -> bool:
            heard.extend(note.payload for note in connection.notifies(timeout=0.01))
            return len(heard) >= count

        async with working(app, queues=["mail"], concurrency=1):
            await until(lambda: asleep(connection), "the worker sleeps")
            # Later than anybody sleeps, so that nobody is rung for now; then sooner, and only the worker is told.
            tasks = [await work.using(queue=q, delay=3600).aenqueue() for q in ("mail", "mail", "reports")]
            ids = [task.id for task in tasks]
            connection.execute(
                "UPDATE orchestrator.tasks_live SET run_at = now() + interval '0.3 s' WHERE id = ANY (%s)",
                [ids],
            )
            for queue in ("mail", "reports"):
                sleeping_worker(connection, queue)
            connection.execute("LISTEN orchestrator")
            connection.execute("NOTIFY orchestrator, 'mail'")
            await until(lambda: listen(3), "both queues are rung for, after our own ring", seconds=10)
        await app.aclose()
        return heard

    assert ["mail", "mail", "reports"] == sorted(asyncio.run(main()))


def test_an_unknown_type_waits_for_a_worker_that_knows_it(
    app: Orchestrator, database_url: str, connection: psycopg.Connection
) -> None:
    """It is put back uncharged, visibly, with a growing delay. A worker that knows it runs attempt 1."""
    knowing = Orchestrator(database_url)

    @knowing.task(name="report", max_attempts=1)
    async def report(context: Context) -> int:
        return context.attempt

    enqueued = report.enqueue()
    waits = []
    with recorded(events.TaskPutBack) as put_back:
        for _ in range(3):
            run_until_empty(app)
            row = task(connection, enqueued.id)
            assert ("scheduled", 0, None, None) == (row.status, row.attempt, row.lease, row.worker_id)
            waits.append((row.run_at - value(connection, "SELECT now()")).total_seconds())
            connection.execute("UPDATE orchestrator.tasks_live SET run_at = now(), status = 'pending'")

    assert [5.0, 10.0, 20.0] == [event.after_seconds for event in put_back]
    for expected, wait in zip([5.0, 10.0, 20.0], waits, strict=True):
        assert expected - 3 < wait <= expected
    error = task(connection, enqueued.id).error
    assert ("UnknownType", 3) == (error["class"], error["put_back"])
    assert "serves queue default but has no handler for type report" in error["message"]

    run_until_empty(knowing)
    knowing.close()
    row = task(connection, enqueued.id)
    assert ("completed", 1, None) == (row.status, row.result, row.error)


def quiet(app: Orchestrator) -> Orchestrator:
    """Return an application whose workers poll once a minute, so that no result depends on a poll."""
    return Orchestrator(app.config.database_url, poll_seconds=60.0, heartbeat_seconds=0.5)


async def past_the_looks(connection: psycopg.Connection) -> None:
    """Wait until the worker's claims have paused for longer than its longest look."""
    await until(
        lambda: value(
            connection,
            "SELECT bool_and(state_change < clock_timestamp() - interval '0.4 s') FROM pg_stat_activity"
            " WHERE application_name = 'orchestrator claims' AND datname = current_database()",
        ),
        "the worker has looked for the last time",
    )


def test_a_backoff_may_be_written_in_whole_numbers(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Beside one with fractions: both are declared, and the database has the given values."""
    for name, backoff in (("whole", Backoff(base_seconds=0, factor=3)), ("plain", Backoff())):
        app.task(name=name, backoff=backoff)(lambda: None)
    run_until_empty(app)

    rows = connection.execute("SELECT name, backoff_factor FROM orchestrator.types ORDER BY name").fetchall()
    assert [("plain", 2.0), ("whole", 3.0)] == rows
