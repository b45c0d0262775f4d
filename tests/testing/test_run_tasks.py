"""`run_tasks` runs the ready tasks on the real database, each as a worker would, and returns how they ended."""

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from orchestrator import Context, Orchestrator, TaskFailed, testing
from orchestrator.errors import DatabaseRestored, OrchestratorError
from orchestrator.testing import TaskCounts
from tests.testing.tasks import Shop


def test_everything_ready_runs_in_its_order(shop: Shop) -> None:
    """Across queues, by priority, and what that makes ready as well."""
    shop.welcome.enqueue(user_id=1)
    shop.awelcome.enqueue(user_id=2)
    shop.welcome.using(priority="critical", queue="bulk").enqueue(user_id=3)
    shop.chain.enqueue(left=1)

    assert TaskCounts(completed=5) == testing.run_tasks(shop.app)
    assert [("welcome", 3, "en"), ("welcome", 1, "en"), ("awelcome", 2)] == shop.notes[:3]
    assert ["begin 1", "end 1", "begin 0", "end 0"] == shop.notes[3:]
    assert TaskCounts() == testing.run_tasks(shop.app)


def test_each_end_is_counted_and_written(shop: Shop) -> None:
    """As a worker writes it."""
    handles = {what: shop.ask.enqueue(what=what) for what in ("retry", "snooze", "cancel", "discard")}
    shop.app.enqueue("elsewhere", {})

    drained = testing.run_tasks(shop.app)

    assert TaskCounts(failed=1, snoozed=1, cancelled=1, dead_lettered=1, unknown=1) == drained
    assert 5 == drained.total
    assert {"retry": "scheduled", "snooze": "scheduled", "cancel": "cancelled", "discard": "dead_letter"} == {
        what: handle.status() for what, handle in handles.items()
    }


def test_a_failure_is_raised_once_it_is_written(shop: Shop) -> None:
    """The handler's own exception; the task waits for its retry."""
    handle = shop.fail.enqueue(word="broken")

    with pytest.raises(ValueError, match="broken") as caught:
        testing.run_tasks(shop.app)

    assert "_fail" in [entry.name for entry in caught.traceback]
    assert ("scheduled", 1) == (handle.refresh().status, handle.refresh().attempt)


def test_failures_may_be_counted_and_their_retries_run(shop: Shop) -> None:
    """`until` looks so far ahead, up to the dead letter."""
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
def test_a_time_that_is_none_is_refused(shop: Shop, until: datetime | str) -> None:
    """By name."""
    with pytest.raises(ValueError, match="until"):
        testing.run_tasks(shop.app, until=until)


def test_queues_may_be_named(shop: Shop) -> None:
    """The others keep what they have."""
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
    """And what was claimed last is given back, uncharged."""
    shop.chain.enqueue(left=1_000_000)

    with pytest.raises(OrchestratorError, match="10 attempts were run"):
        testing.run_tasks(shop.app, limit=10)

    assert ("pending", 0) == (lambda task: (task.status, task.attempt))(testing.assert_enqueued(shop.chain))


def test_a_timeout_ends_an_attempt(shop: Shop) -> None:
    """It is a failure without an exception of the handler's."""

    @shop.app.task(name="shop.sleep", timeout=0.05, max_attempts=1)
    async def sleep() -> None:
        await asyncio.sleep(600)

    sleep.enqueue()

    with pytest.raises(TaskFailed, match="Timeout"):
        testing.run_tasks(shop.app)


def test_an_unfit_payload_is_an_error_too(shop: Shop, connection: psycopg.Connection) -> None:
    """A hand wrote what the handler does not take."""
    connection.execute(
        """INSERT INTO orchestrator.tasks (type, payload) VALUES ('shop.welcome', '{"id": 1}')"""
    )

    with pytest.raises(TaskFailed, match="user_id"):
        testing.run_tasks(shop.app)


def test_a_handler_has_all_of_its_context(shop: Shop, connection: psycopg.Connection) -> None:
    """A transaction with its completion, progress, a log: there is a database."""
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


def test_a_task_that_changes_meanwhile_is_counted(shop: Shop, connection: psycopg.Connection) -> None:
    """Its outcome is stale."""

    @shop.app.task(name="shop.vanish")
    def vanish(context: Context) -> None:
        connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [context.id])

    vanish.enqueue()

    assert TaskCounts(stale=1) == testing.run_tasks(shop.app)


async def test_coroutines_drain_on_their_loop(shop: Shop) -> None:
    """And a thread's way says so to them."""
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


def test_no_worker_stays_behind(shop: Shop, connection: psycopg.Connection) -> None:
    """Its worker has stopped, also after an error, and its sessions are closed."""
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
    """It says so, as a worker does."""
    connection.execute("UPDATE orchestrator.home SET place = '{}'")

    with pytest.raises(DatabaseRestored):
        testing.run_tasks(shop.app)


def test_another_database_for_a_while(shop: Shop, database_url: str) -> None:
    """The application enqueues and drains there, and is what it was afterwards."""
    lost = Shop(Orchestrator("postgresql://nobody@127.0.0.1:1/nothing"))
    with testing.use_database(lost.app, database_url):
        lost.welcome.enqueue(user_id=1)
        assert TaskCounts(completed=1) == testing.run_tasks(lost.app)

    assert "postgresql://nobody@127.0.0.1:1/nothing" == lost.app.config.database_url
