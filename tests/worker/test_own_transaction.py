"""A handler that completes its task in its own transaction: what is committed with it, and what undoes both."""

import asyncio
import threading
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from orchestrator import Cancel, Context, Discard, Orchestrator, Snooze, events
from tests.conftest import MakeApp
from tests.worker.ledger import ENTRY, REFUSED_COMMIT, both_colours, entries, writing
from tests.worker.running import (
    AT_ONCE,
    attempts,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    value,
    working,
)

pytestmark = pytest.mark.usefixtures("ledger")


@both_colours
def test_the_writes_and_the_completion_are_one_transaction(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The rows have the number of the same transaction. The event comes once, and the outbox gets nothing."""
    handle = writing(app, colour).enqueue()

    with recorded(events.TaskCompleted, events.StaleOutcome, events.OutcomeIgnored) as seen:
        run_until_empty(app)

    assert [(handle.id, 1)] == entries(connection)
    assert [(events.TaskCompleted, handle.id, 1)] == [(type(e), e.task_id, e.attempt) for e in seen]
    assert ("completed", None, 1) == (
        status(connection, handle.id),
        task(connection, handle.id).result,
        task(connection, handle.id).attempt,
    )
    same = "SELECT l.xmin = t.xmin FROM ledger AS l, orchestrator.tasks_done AS t WHERE t.id = l.task_id"
    assert value(connection, same)


@both_colours
def test_an_error_inside_undoes_both(app: Orchestrator, connection: psycopg.Connection, colour: str) -> None:
    """The attempt ends with that error, and the next attempt begins without any of the writes."""

    def stumble(context: Context) -> None:
        if context.attempt == 1:
            raise ConnectionError("the mail server is away")

    handle = writing(app, colour, inside=stumble, backoff=AT_ONCE).enqueue()
    run_until_empty(app)

    assert [(handle.id, 2)] == entries(connection)
    assert ("completed", [(1, "failed")]) == (status(connection, handle.id), attempts(connection, handle.id))


@both_colours
@pytest.mark.parametrize(
    ("signal", "end"),
    [(Snooze("1h"), "scheduled"), (Cancel("no"), "cancelled"), (Discard("no"), "dead_letter")],
    ids=["snooze", "cancel", "discard"],
)
def test_a_signal_inside_undoes_both_and_has_its_effect(
    app: Orchestrator, connection: psycopg.Connection, colour: str, signal: Exception, end: str
) -> None:
    """As without a transaction."""

    def ask(_context: Context) -> None:
        raise signal

    handle = writing(app, colour, inside=ask).enqueue()
    run_until_empty(app)

    assert (end, []) == (status(connection, handle.id), entries(connection))


@both_colours
def test_errors_after_the_commit_are_ignored(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The event reports the error. The task stays completed."""

    def stumble(_context: Context) -> None:
        raise ValueError("too late")

    handle = writing(app, colour, after=stumble, max_attempts=1).enqueue()
    with recorded(events.OutcomeIgnored, events.TaskDeadLettered) as seen:
        run_until_empty(app)

    what = "it raised ValueError: too late"
    assert [events.OutcomeIgnored(handle.id, "write", "default", what)] == seen
    assert [(handle.id, 1)] == entries(connection)
    assert ("completed", []) == (status(connection, handle.id), attempts(connection, handle.id))


@both_colours
def test_a_result_is_set_inside(app: Orchestrator, connection: psycopg.Connection, colour: str) -> None:
    """A later returned value is too late. The same value again is ignored."""
    written = writing(
        app, colour, inside=lambda context: context.result({"sum": 3}), after=lambda _: {"sum": 3}
    )
    handle = written.enqueue()
    with recorded(events.OutcomeIgnored) as ignored:
        run_until_empty(app)

    assert ({"sum": 3}, []) == (task(connection, handle.id).result, ignored)


@both_colours
def test_a_value_returned_after_the_commit_is_reported(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """It can no longer be stored, and an event reports that."""
    handle = writing(app, colour, after=lambda _: 7).enqueue()
    with recorded(events.OutcomeIgnored) as ignored:
        run_until_empty(app)

    what = "it returned a value; context.result() sets one inside the transaction"
    assert [events.OutcomeIgnored(handle.id, "write", "default", what)] == ignored
    assert None is task(connection, handle.id).result


def test_a_result_is_set_without_a_transaction(app: Orchestrator, connection: psycopg.Connection) -> None:
    """It is the result of a handler that returns nothing. A returned value overrides it."""

    @app.task(name="count")
    async def count(context: Context, number: int | None) -> int | None:
        context.result([1, 2])
        return number

    handles = [count.enqueue(number=None), count.enqueue(number=0)]
    run_until_empty(app)

    assert [[1, 2], 0] == [task(connection, handle.id).result for handle in handles]


@both_colours
def test_a_result_that_is_too_long_fails_where_it_is_set(
    make_app: MakeApp, connection: psycopg.Connection, colour: str
) -> None:
    """Inside the block, so that all is undone."""
    app = make_app(result_bytes_max=100)
    handle = writing(app, colour, inside=lambda context: context.result("x" * 101), max_attempts=1).enqueue()
    run_until_empty(app)

    row = task(connection, handle.id)
    assert ("dead_letter", "orchestrator.errors.PayloadRefused") == (row.status, row.error["class"])
    assert row.error["message"].startswith("result takes 103 bytes")
    assert [] == entries(connection)


@both_colours
def test_one_transaction_is_committed_and_no_second(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The second is refused with a message before it writes anything, and so is a nested one."""
    errors: list[str] = []

    async def again(context: Context) -> None:
        try:
            async with context.transaction() as other:
                await other.execute(ENTRY, [0, 0])
        except RuntimeError as error:
            errors.append(str(error))

    def again_in_thread(context: Context) -> None:
        try:
            with context.transaction() as other:
                other.execute(ENTRY, [0, 0])
        except RuntimeError as error:
            errors.append(str(error))

    again_in_colour = again if colour == "async" else again_in_thread
    handle = writing(app, colour, inside=again_in_colour, after=again_in_colour).enqueue()
    run_until_empty(app)

    assert [(handle.id, 1)] == entries(connection)
    assert [f"a transaction of task {handle.id} is open already", f"task {handle.id} is completed"] == [
        text.partition(",")[0].partition(":")[0] for text in errors
    ]


@both_colours
def test_one_that_was_rolled_back_may_be_followed_by_another(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """So a handler can try another way."""

    async def give_up(context: Context) -> None:
        with suppress(ZeroDivisionError):
            async with context.transaction() as connection:
                await connection.execute(ENTRY, [0, 0])
                raise ZeroDivisionError

    def give_up_in_thread(context: Context) -> None:
        with suppress(ZeroDivisionError), context.transaction() as connection:
            connection.execute(ENTRY, [0, 0])
            raise ZeroDivisionError

    handle = writing(app, colour, before=give_up if colour == "async" else give_up_in_thread).enqueue()
    run_until_empty(app)

    assert [(handle.id, 1)] == entries(connection)


def test_a_sync_block_in_a_coroutine_and_the_reverse_are_refused(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The message names the right form."""
    errors: dict[str, str] = {}

    @app.task(name="blocks")
    async def blocks(context: Context) -> None:
        with pytest.raises(TypeError) as refused, context.transaction():
            pass
        errors["async def"] = str(refused.value)

    @app.task(name="loops")
    def loops(context: Context) -> None:
        async def loop() -> None:
            async with context.transaction():
                pass

        with pytest.raises(TypeError) as refused:
            asyncio.run(loop())
        errors["def"] = str(refused.value)

    handles = [blocks.enqueue(), loops.enqueue()]
    run_until_empty(app)

    assert ["completed"] * 2 == [status(connection, handle.id) for handle in handles]
    assert "write `async with context.transaction()" in errors["async def"]
    assert "write `with context.transaction()" in errors["def"]


def test_a_coroutine_may_leave_its_transaction_to_a_thread(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A library without asyncio works: the thread that writes decides the form."""

    def write(context: Context) -> None:
        with context.transaction() as connection:
            connection.execute(ENTRY, [context.id, context.attempt])

    @app.task(name="leave")
    async def leave(context: Context) -> None:
        await asyncio.to_thread(write, context)

    handle = leave.enqueue()
    run_until_empty(app)

    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))


@both_colours
def test_a_commit_of_the_handlers_own_is_refused(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """By psycopg if it can. A COMMIT as SQL text is found at the end, and fails the attempt."""
    errors: list[str] = []

    @app.task(name="early", max_attempts=1)
    async def early(context: Context) -> None:
        async with context.transaction() as own:
            with pytest.raises(psycopg.ProgrammingError) as refused:
                await own.commit()
            errors.append(str(refused.value))
            await own.execute("COMMIT")

    @app.task(name="early_in_thread", max_attempts=1)
    def early_in_thread(context: Context) -> None:
        with context.transaction() as own:
            with pytest.raises(psycopg.ProgrammingError) as refused:
                own.commit()
            errors.append(str(refused.value))
            own.execute("COMMIT")

    handle = (early if colour == "async" else early_in_thread).enqueue()
    run_until_empty(app)

    row = task(connection, handle.id)
    assert ("dead_letter", "RuntimeError") == (row.status, row.error["class"])
    assert "was ended inside its block" in row.error["message"]
    assert errors[0].startswith("Explicit commit() forbidden")


@both_colours
def test_a_commit_that_is_refused_is_a_failure(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """A deferred constraint fails at the COMMIT. The result is certain, so no check is needed."""
    connection.execute(REFUSED_COMMIT)
    connection.execute(ENTRY, [0, 1])
    handle = writing(app, colour, max_attempts=2, backoff=AT_ONCE).enqueue()
    with recorded(events.ConnectionLost) as lost:
        run_until_empty(app)

    assert ("completed", [(1, "failed")]) == (status(connection, handle.id), attempts(connection, handle.id))
    assert [(0, 1), (handle.id, 2)] == entries(connection)
    error = "SELECT error ->> 'class' FROM orchestrator.attempts"
    assert ("psycopg.errors.UniqueViolation", []) == (value(connection, error), lost)


@both_colours
def test_a_missing_leaf_is_made(app: Orchestrator, connection: psycopg.Connection, colour: str) -> None:
    """The leader has not made the leaf in time; the handler's writes are not lost."""
    leaf = value(connection, "SELECT orchestrator.ensure_partition()")
    connection.execute(f"DROP TABLE orchestrator.{leaf}")
    handle = writing(app, colour).enqueue()
    run_until_empty(app)

    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))


@both_colours
def test_a_connection_is_as_new_for_the_next(
    make_app: MakeApp, connection: psycopg.Connection, colour: str
) -> None:
    """A tenant of one task does not apply to the next, nor does a lock, nor a row factory."""
    app = make_app(transaction_pool_size=1)
    asked = (
        "SELECT current_setting('app.tenant', true) AS tenant, current_user AS who, pg_backend_pid() AS pid"
    )
    seen: list[Any] = []
    connection.execute("DROP ROLE IF EXISTS tenant")
    connection.execute("CREATE ROLE tenant")

    @app.task(name="set")
    async def set_up(context: Context) -> None:
        async with context.transaction() as own:
            seen.append(await (await own.execute(asked)).fetchone())
            own.row_factory = dict_row  # type: ignore[assignment]
            await own.execute("SELECT pg_advisory_lock(7)")
            await own.execute("SET app.tenant = 'a'")
            await own.execute("SET ROLE tenant")

    @app.task(name="set_in_thread")
    def set_up_in_thread(context: Context) -> None:
        with context.transaction() as own:
            seen.append(own.execute(asked).fetchone())
            own.row_factory = dict_row  # type: ignore[assignment]
            own.execute("SELECT pg_advisory_lock(7)")
            own.execute("SET app.tenant = 'a'")
            own.execute("SET ROLE tenant")

    for _ in range(2):
        (set_up if colour == "async" else set_up_in_thread).enqueue()
    run_until_empty(app, concurrency=1)
    connection.execute("DROP ROLE tenant")

    assert {"completed"} == {row[0] for row in connection.execute("SELECT status FROM orchestrator.tasks")}
    (first, second) = seen
    assert first[2] == second[2], "it is the same connection"
    assert (first[1], None) == (second[1], second[0] or None)


def test_an_isolation_level_may_be_set_first(app: Orchestrator, connection: psycopg.Connection) -> None:
    """The default is READ COMMITTED, and the next transaction has it again."""
    seen: list[Any] = []

    @app.task(name="isolated")
    async def isolated(context: Context) -> None:
        async with context.transaction() as own:
            if context.id % 2:
                await own.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            cursor = await own.execute("SHOW transaction_isolation")
            seen.append((context.id % 2, await cursor.fetchone()))

    handles = [isolated.enqueue() for _ in range(4)]
    run_until_empty(app, concurrency=1)

    assert {(1, ("serializable",)), (0, ("read committed",))} == set(seen)
    assert {"completed"} == {status(connection, handle.id) for handle in handles}


@both_colours
async def test_a_look_after_the_commit_takes_nothing_from_the_handler(
    make_app: MakeApp, connection: psycopg.Connection, colour: str
) -> None:
    """Its row has left the live tasks by its own commit. The handler goes on to its end, and is not cancelled."""
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.05, dead_after_seconds=30)
    ended: list[bool] = []
    go_on = threading.Event()

    def linger(context: Context) -> Any:
        if colour == "async":
            return asyncio.to_thread(go_on.wait, 20)
        go_on.wait(20)
        ended.append(context.cancelled)
        return None

    handle = writing(app, colour, after=linger).enqueue()

    def beats() -> str:
        return str(value(connection, "SELECT beat_at FROM orchestrator.workers"))

    with recorded(events.LeaseLost, events.StaleOutcome, events.GhostsReleased) as wrong:
        async with working(app):
            await until(lambda: status(connection, handle.id) == "completed", "it has committed")
            for _ in range(4):
                last = beats()
                await until(lambda last=last: beats() != last, "it has looked")  # type: ignore[misc]
            go_on.set()
    assert [] == wrong

    assert colour == "async" or [False] == ended
    assert [(handle.id, 1)] == entries(connection)
