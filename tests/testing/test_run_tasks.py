"""`run_tasks` runs the ready tasks on the real database, as a worker does, and returns how they ended."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from orchestrator import Context, Orchestrator, TaskFailed, testing
from orchestrator.errors import DatabaseRestored, OrchestratorError
from orchestrator.testing import TaskCounts
from tests.testing.tasks import Shop


def test_everything_ready_runs_in_its_order(shop: Shop) -> None:
    """All queues, by priority, and also the tasks that the handlers enqueue."""
    shop.welcome.enqueue(user_id=1)
    shop.awelcome.enqueue(user_id=2)
    shop.welcome.using(priority="critical", queue="bulk").enqueue(user_id=3)
    shop.chain.enqueue(left=1)

    assert TaskCounts(completed=5) == testing.run_tasks(shop.app)
    assert [("welcome", 3, "en"), ("welcome", 1, "en"), ("awelcome", 2)] == shop.notes[:3]
    assert ["begin 1", "end 1", "begin 0", "end 0"] == shop.notes[3:]
    assert TaskCounts() == testing.run_tasks(shop.app)


def test_each_end_is_counted_and_written(shop: Shop) -> None:
    """It is written as by a worker."""
    handles = {what: shop.ask.enqueue(what=what) for what in ("retry", "snooze", "cancel", "discard")}
    shop.app.enqueue("elsewhere", {})

    drained = testing.run_tasks(shop.app)

    assert TaskCounts(failed=1, snoozed=1, cancelled=1, dead_lettered=1, unknown=1) == drained
    assert 5 == drained.total
    assert {"retry": "scheduled", "snooze": "scheduled", "cancel": "cancelled", "discard": "dead_letter"} == {
        what: handle.status() for what, handle in handles.items()
    }


def test_a_failure_is_raised_once_it_is_written(shop: Shop) -> None:
    """It is the handler's own exception. The task waits for its retry."""
    handle = shop.fail.enqueue(word="broken")

    with pytest.raises(ValueError, match="broken") as caught:
        testing.run_tasks(shop.app)

    assert "_fail" in [entry.name for entry in caught.traceback]
    assert ("scheduled", 1) == (handle.refresh().status, handle.refresh().attempt)


def test_failures_may_be_counted_and_their_retries_run(shop: Shop) -> None:
    """With `until`, the retries that are due by then run, up to the dead letter."""
    handle = shop.fail.enqueue(word="broken")

    assert TaskCounts(failed=1) == testing.run_tasks(shop.app, raising=False)
    assert TaskCounts() == testing.run_tasks(shop.app, raising=False)
    assert TaskCounts(dead_lettered=1) == testing.run_tasks(shop.app, raising=False, until="1h")
    assert "dead_letter" == handle.status()


def test_a_scheduled_task_runs_with_until(shop: Shop) -> None:
    """`until` is a span or a time. Without it the task stays scheduled."""
    later = datetime.now(UTC) + timedelta(hours=2)
    shop.welcome.using(run_at=later).enqueue(user_id=1)

    assert TaskCounts() == testing.run_tasks(shop.app)
    assert TaskCounts() == testing.run_tasks(shop.app, until=timedelta(hours=1))
    assert TaskCounts(completed=1) == testing.run_tasks(shop.app, until=later)


@pytest.mark.parametrize("until", [datetime(2030, 1, 1), "soon"])
def test_an_invalid_until_is_refused(shop: Shop, until: datetime | str) -> None:
    """The error names `until`."""
    with pytest.raises(ValueError, match="until"):
        testing.run_tasks(shop.app, until=until)


def test_queues_may_be_named(shop: Shop) -> None:
    """The tasks of other queues stay."""
    shop.welcome.enqueue(user_id=1)
    shop.awelcome.enqueue(user_id=2)

    assert TaskCounts(completed=1) == testing.run_tasks(shop.app, queues=["mail"])
    testing.assert_enqueued(shop.awelcome)
    with pytest.raises(TypeError, match="list"):
        testing.run_tasks(shop.app, queues="mail")


def test_a_paused_queue_runs_nothing(shop: Shop, connection: psycopg.Connection) -> None:
    """As with a worker."""
    shop.welcome.enqueue(user_id=1)
    connection.execute("SELECT orchestrator.pause_queue('mail', 'a test')")

    assert TaskCounts() == testing.run_tasks(shop.app)


def test_a_task_that_enqueues_itself_comes_to_an_end(shop: Shop) -> None:
    """The last claimed task is released, without counting the attempt."""
    shop.chain.enqueue(left=1_000_000)

    with pytest.raises(OrchestratorError, match="10 attempts were run"):
        testing.run_tasks(shop.app, limit=10)

    assert ("pending", 0) == (lambda task: (task.status, task.attempt))(testing.assert_enqueued(shop.chain))


def test_a_timeout_ends_an_attempt(shop: Shop) -> None:
    """The handler raised no exception, so TaskFailed is raised."""

    @shop.app.task(name="shop.sleep", timeout=0.05, max_attempts=1)
    async def sleep() -> None:
        await asyncio.sleep(600)

    sleep.enqueue()

    with pytest.raises(TaskFailed, match="Timeout"):
        testing.run_tasks(shop.app)


def test_an_unfit_payload_is_an_error_too(shop: Shop, connection: psycopg.Connection) -> None:
    """Plain SQL inserted a payload that the handler does not accept."""
    connection.execute(
        """INSERT INTO orchestrator.tasks (type, payload) VALUES ('shop.welcome', '{"id": 1}')"""
    )

    with pytest.raises(TaskFailed, match="user_id"):
        testing.run_tasks(shop.app)


def test_a_handler_has_all_of_its_context(shop: Shop, connection: psycopg.Connection) -> None:
    """There is a database, so it has a transaction that completes the task, progress, and a result."""
    connection.execute("CREATE TABLE effects (n integer)")

    @shop.app.task(name="shop.own")
    async def own(context: Context) -> None:
        context.progress({"half": True})
        context.result("done")
        async with context.transaction() as mine:
            await mine.execute("INSERT INTO effects VALUES (1)")

    handle = own.enqueue()

    assert TaskCounts(completed=1) == testing.run_tasks(shop.app)
    assert "done" == handle.result()
    assert [(1,)] == connection.execute("SELECT n FROM effects").fetchall()


def test_a_task_that_is_deleted_during_its_run_is_counted_as_stale(
    shop: Shop, connection: psycopg.Connection
) -> None:
    """Its outcome is dropped."""

    @shop.app.task(name="shop.vanish")
    def vanish(context: Context) -> None:
        connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [context.id])

    vanish.enqueue()

    assert TaskCounts(stale=1) == testing.run_tasks(shop.app)


async def test_arun_tasks_runs_on_the_callers_loop(shop: Shop) -> None:
    """The error of run_tasks in a coroutine advises `await arun_tasks`."""
    loops: list[object] = []

    @shop.app.task(name="shop.loop")
    async def loop() -> None:
        loops.append(asyncio.get_running_loop())

    await loop.aenqueue()
    with pytest.raises(RuntimeError, match="await arun_tasks"):
        testing.run_tasks(shop.app)
    await testing.arun_tasks(shop.app)
    await shop.app.aclose()

    assert [asyncio.get_running_loop()] == loops


def test_no_worker_is_left(shop: Shop, connection: psycopg.Connection) -> None:
    """Its worker has stopped, also after an error, and none of its sessions is active."""
    shop.fail.enqueue(word="broken")
    with pytest.raises(ValueError, match="broken"):
        testing.run_tasks(shop.app)

    assert [("stopped",)] == connection.execute("SELECT state FROM orchestrator.workers").fetchall()
    assert (
        []
        == connection.execute(
            "SELECT application_name FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'orchestrator testing' AND state = 'active'"
        ).fetchall()
    )


def test_a_copy_that_no_operator_has_resumed_runs_nothing(shop: Shop, connection: psycopg.Connection) -> None:
    """It raises DatabaseRestored, like a worker."""
    connection.execute("UPDATE orchestrator.home SET place = '{}'")

    with pytest.raises(DatabaseRestored):
        testing.run_tasks(shop.app)


def test_use_database_changes_the_database_for_a_block(shop: Shop, database_url: str) -> None:
    """The application enqueues and runs tasks there. Afterwards it has its own database again."""
    lost = Shop(Orchestrator("postgresql://nobody@127.0.0.1:1/nothing"))
    with testing.use_database(lost.app, database_url):
        lost.welcome.enqueue(user_id=1)
        assert TaskCounts(completed=1) == testing.run_tasks(lost.app)

    assert "postgresql://nobody@127.0.0.1:1/nothing" == lost.app.config.database_url
