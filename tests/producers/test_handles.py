"""The handle of a task: its status, its result, its failure, its cancel."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from orchestrator import Cancel, Orchestrator
from orchestrator.errors import (
    OperationRefused,
    OrchestratorError,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
)
from orchestrator.task.backoff import Backoff
from tests.conftest import MakeApp
from tests.producers.every_holder import COLOURS
from tests.worker.running import run_until_empty, until, value, working


def ask(colour: str, app: Orchestrator, handle: Any, name: str, /, *args: Any, **options: Any) -> Any:
    """Call a method of a handle, or its async twin on a loop whose pool is closed afterwards."""
    if colour == "def":
        return getattr(handle, name)(*args, **options)

    async def main() -> Any:
        try:
            return await getattr(handle, f"a{name}")(*args, **options)
        finally:
            await app.aclose()

    return asyncio.run(main())


@pytest.fixture
def ends(app: Orchestrator) -> dict[str, Any]:
    """Tasks with each kind of end."""

    @app.task(name="completes")
    def completes(value: Any = None) -> Any:
        return value

    @app.task(name="fails", max_attempts=1)
    def fails() -> None:
        raise LookupError("no such thing")

    @app.task(name="cancels")
    def cancels() -> None:
        raise Cancel("changed my mind")

    return {"completes": completes, "fails": fails, "cancels": cancels}


@COLOURS
@pytest.mark.parametrize("returned", [None, 0, "text", [1, {"a": None}], {"total": 1.5}, False], ids=repr)
def test_result_is_the_handlers_return_value(
    colour: str, returned: Any, app: Orchestrator, ends: dict[str, Any]
) -> None:
    """As JSON keeps it."""
    handle = ends["completes"].enqueue(value=returned)
    run_until_empty(app)

    assert returned == ask(colour, app, handle, "result")
    assert returned == ask(colour, app, handle, "result", timeout=0)
    assert "completed" == ask(colour, app, handle, "status")


@COLOURS
def test_a_dead_letter_is_raised_with_its_remote_error(
    colour: str, app: Orchestrator, ends: dict[str, Any]
) -> None:
    """Class, message and traceback of the worker's side."""
    handle = ends["fails"].enqueue()
    run_until_empty(app)

    with pytest.raises(
        TaskFailed, match=rf"task {handle.id} became a dead letter after LookupError: no such thing"
    ) as failure:
        ask(colour, app, handle, "result", timeout=0)

    assert (handle.id, "LookupError", "no such thing") == (
        failure.value.task_id, failure.value.error_class, failure.value.message,
    )  # fmt: skip
    assert "in fails" in failure.value.traceback


@COLOURS
def test_a_cancelled_task_is_raised_with_its_reason(
    colour: str, app: Orchestrator, ends: dict[str, Any]
) -> None:
    """The handler's reason, that of a manual cancel, or none."""
    by_handler, manually, without = (
        ends["cancels"].enqueue(),
        ends["fails"].enqueue(),
        ends["fails"].enqueue(),
    )
    ask(colour, app, manually, "cancel", "sold out")
    ask(colour, app, without, "cancel")
    run_until_empty(app)

    reasons = []
    for handle in (by_handler, manually, without):
        with pytest.raises(TaskCancelled, match=f"task {handle.id} was cancelled") as cancelled:
            ask(colour, app, handle, "result", timeout=0)
        reasons.append(cancelled.value.reason)

    assert ["changed my mind", "sold out", None] == reasons


def test_the_last_failure_is_not_taken_for_the_reason(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """For a task that failed, waits for its retry, and is cancelled then."""

    @app.task(name="flaky", backoff=Backoff(base_seconds=300, jitter=0))
    def flaky() -> None:
        raise LookupError("not the reason")

    handle = flaky.enqueue()

    async def main() -> None:
        async with working(app):
            await until(lambda: handle.refresh().error, "it has failed once")

    asyncio.run(main())
    handle.cancel("because")

    with pytest.raises(TaskCancelled) as cancelled:
        handle.result(timeout=0)
    assert "because" == cancelled.value.reason


@COLOURS
@pytest.mark.parametrize("method", ["result", "refresh", "status", "cancel"])
def test_a_task_that_is_not_there_has_expired(
    colour: str,
    method: str,
    app: Orchestrator,
    ends: dict[str, Any],
    connection: psycopg.Connection,
    database_url: str,
) -> None:
    """Deleted, or its transaction is not committed yet; the sentence names both."""
    deleted = ends["completes"].enqueue()
    connection.execute("DELETE FROM orchestrator.tasks")
    with psycopg.connect(database_url) as mine:
        uncommitted = ends["completes"].using(mine).enqueue()
        for handle in (deleted, uncommitted, app.handle(10**15)):
            with pytest.raises(
                TaskExpired, match=rf"there is no task {handle.id}: it was deleted.*not committed"
            ):
                ask(colour, app, handle, method)


@COLOURS
def test_timeout_zero_looks_once(colour: str, app: Orchestrator, ends: dict[str, Any]) -> None:
    """And raises, without the wait for a result or the pool's wait for a connection."""
    handle = ends["completes"].enqueue()
    begun = time.monotonic()

    with pytest.raises(TimeoutError, match=rf"task {handle.id} has not finished within 0 s; it goes on"):
        ask(colour, app, handle, "result", timeout=0)

    assert time.monotonic() - begun < 30


@COLOURS
def test_a_wait_ends_at_its_timeout(colour: str, app: Orchestrator, ends: dict[str, Any]) -> None:
    """Not before, and not much after."""
    handle = ends["completes"].enqueue()
    begun = time.monotonic()

    with pytest.raises(TimeoutError, match=r"within 0.2 s"):
        ask(colour, app, handle, "result", timeout=0.2)

    assert 0.2 <= time.monotonic() - begun < 5


def test_refresh_shows_the_present_state(app: Orchestrator, ends: dict[str, Any]) -> None:
    """Before it ran, and after it failed."""
    handle = ends["fails"].using(queue="others").enqueue()
    before = handle.refresh()
    run_until_empty(app, queues=["others"])
    after = handle.refresh()

    assert ("pending", "fails", "others", 0, 1) == (
        before.status, before.type, before.queue, before.attempt, before.max_attempts,
    )  # fmt: skip
    assert (None, None, None) == (before.error, before.started_at, before.finished_at)
    assert ("dead_letter", 1) == (after.status, after.attempt)
    assert after.error is not None
    assert "LookupError" == after.error.class_name
    assert after.finished_at is not None
    assert after.finished_at >= after.created_at


@COLOURS
def test_a_cancelled_waiting_task_never_runs(
    colour: str, app: Orchestrator, ends: dict[str, Any], connection: psycopg.Connection
) -> None:
    """Pending or scheduled. A second cancel is no error."""
    for handle in (ends["completes"].enqueue(), ends["completes"].using(delay="1h").enqueue()):
        ask(colour, app, handle, "cancel", "sold out")
        assert "cancelled" == ask(colour, app, handle, "status")
        ask(colour, app, handle, "cancel")
    run_until_empty(app)

    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.tasks WHERE attempt > 0")


async def test_a_cancel_of_a_running_task_drops_its_outcome(app: Orchestrator) -> None:
    """The waiting caller learns of the cancel at once. A later result of the handler is dropped."""
    release = asyncio.Event()

    @app.task(name="long")
    async def long() -> str:
        await release.wait()
        return "too late"

    async with working(app):
        handle = await long.aenqueue()
        await until(lambda: handle.refresh().status in ("claimed", "running"), "it is taken")
        waiting = asyncio.create_task(handle.aresult())
        await handle.acancel("stop")
        with pytest.raises(TaskCancelled, match="stop"):
            await waiting
        release.set()
    assert "cancelled" == await handle.astatus()


@COLOURS
@pytest.mark.parametrize(
    ("end", "sentence"),
    [
        (
            "completes",
            r"task \d+ is completed, and a manual change cannot make it cancelled. It has already finished",
        ),
        (
            "fails",
            r"task \d+ is dead_letter, and a manual change cannot make it cancelled. It will not run again",
        ),
    ],
)
def test_a_finished_task_cannot_be_cancelled(
    colour: str, end: str, sentence: str, app: Orchestrator, ends: dict[str, Any]
) -> None:
    """The error is ours, not psycopg's, and says what to do."""
    handle = ends[end].enqueue()
    run_until_empty(app)

    with pytest.raises(OperationRefused, match=sentence) as refusal:
        ask(colour, app, handle, "cancel")

    assert isinstance(refusal.value, OrchestratorError)
    assert "OR001" == refusal.value.sqlstate


@COLOURS
@pytest.mark.parametrize("method", ["status", "cancel"])
def test_the_error_for_a_missing_right_names_the_right(
    colour: str, method: str, ends: dict[str, Any], database_url: str, connection: psycopg.Connection
) -> None:
    """A producer's role may only enqueue."""
    connection.execute("DROP ROLE IF EXISTS only_producer")
    connection.execute("CREATE ROLE only_producer LOGIN IN ROLE orchestrator_producer")
    lesser = Orchestrator(
        database_url.replace("user=postgres", "user=only_producer").replace("postgres@", "only_producer@")
    )
    task = lesser.task(name="completes")(lambda: None)
    handle = task.enqueue()

    with pytest.raises(OperationRefused, match=r"permission denied.*orchestrator_reader"):
        ask(colour, lesser, handle, method)

    lesser.close()
    connection.execute("DROP ROLE only_producer")


async def test_fifty_waiting_coroutines_share_the_pool(
    make_app: MakeApp, connection: psycopg.Connection
) -> None:
    """A wait uses a connection only during a look."""
    app = make_app(pool_size=3, pool_timeout_seconds=20)
    gate = asyncio.Event()

    @app.task(name="gated")
    async def gated(number: int) -> int:
        await gate.wait()
        return number

    handles = await gated.aenqueue_many({"number": n} for n in range(50))
    waits = [asyncio.create_task(handle.aresult(timeout=30)) for handle in handles]
    async with working(app, concurrency=50):
        await until(lambda: held(connection) == 50, "all are taken")
        gate.set()
        found = await asyncio.gather(*waits)

    assert list(range(50)) == found


def held(connection: psycopg.Connection) -> int:
    return int(
        value(connection, "SELECT count(*) FROM orchestrator.tasks WHERE status IN ('claimed', 'running')")
    )


def test_a_handle_is_made_of_an_id(app: Orchestrator, ends: dict[str, Any]) -> None:
    """In another process, or from a column of the caller's; the ids of a set give handles, too."""
    many = ends["completes"].enqueue_many({"value": n} for n in range(3))
    run_until_empty(app)

    assert [0, 1, 2] == [app.handle(handle.id).result(timeout=0) for handle in many]
    assert [0, 1, 2] == [handle.result(timeout=0) for handle in many]
    assert many[1] == many[1:][0]


LOOKS: list[Callable[[Any], object]] = [
    lambda h: h.status(),
    lambda h: h.result(timeout=0),
    lambda h: h.cancel(),
]


def test_an_unreachable_database_raises_our_error(
    ends: dict[str, Any], app: Orchestrator, database_url: str
) -> None:
    """For every method."""
    lost = Orchestrator("postgresql://nobody@127.0.0.1:9/nothing", pool_timeout_seconds=0.1).handle(1)

    for look in LOOKS:
        with pytest.raises(OrchestratorError, match=r"127\.0\.0\.1:9"):
            look(lost)
