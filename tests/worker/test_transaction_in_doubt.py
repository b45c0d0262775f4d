"""The connection of a handler's own transaction breaks: before the COMMIT, during it, and for a longer time."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orchestrator import Context, DatabaseUnavailable, Orchestrator, events
from orchestrator.finish import LeaseEnds
from orchestrator.postgres import transaction_pool
from orchestrator.services import transaction
from orchestrator.services.transaction import Transaction
from orchestrator.worker import end_attempts
from orchestrator.worker.end_attempts import AttemptEnder
from tests import bouncer
from tests.conftest import MakeApp
from tests.patience import PATIENCE_SECONDS
from tests.proxy import Proxy
from tests.tiers import long
from tests.worker.ledger import ENTRY, SLOW_COMMIT, both_colours, entries, led_through, one_each, writing
from tests.worker.outage import Outage
from tests.worker.running import (
    AT_ONCE,
    attempts,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    working,
)

pytestmark = pytest.mark.usefixtures("ledger")

# As it is sent: the whole of a statement, and not a word in a comment.
COMMIT = b"COMMIT\x00"
TERMINATE = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE application_name = 'orchestrator transactions' AND datname = current_database()"
)


@pytest.fixture
def proxy(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy for the handlers' transactions only."""
    with Proxy(database_url) as proxy, led_through(monkeypatch, proxy.url):
        yield proxy


@both_colours
def test_a_commit_whose_answer_was_lost_is_found(
    app: Orchestrator, connection: psycopg.Connection, proxy: Proxy, colour: str
) -> None:
    """It reached the server, so the task does not run again, and one event reports it as completed."""
    runs: Counter[int] = Counter()
    handle = writing(app, colour, inside=lambda context: runs.update([context.id])).enqueue()
    proxy.cut_after(COMMIT)
    with recorded(
        events.TaskCompleted, events.TaskFailed, events.StaleOutcome, events.ConnectionLost
    ) as seen:
        run_until_empty(app)

    assert [] == proxy.after, "an answer was lost"
    assert ["ConnectionLost", "TaskCompleted"] == [type(event).__name__ for event in seen]
    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))
    assert ({handle.id: 1}, []) == (runs, attempts(connection, handle.id))


@both_colours
def test_a_commit_that_never_arrived_is_found_too(
    app: Orchestrator, connection: psycopg.Connection, proxy: Proxy, colour: str
) -> None:
    """None of its writes exist. The attempt has failed, and the next one completes."""
    handle = writing(app, colour, backoff=AT_ONCE).enqueue()
    proxy.cut_before(COMMIT)
    run_until_empty(app)

    assert [] == proxy.before, "it was cut"
    assert ("completed", [(handle.id, 2)]) == (status(connection, handle.id), entries(connection))
    assert [(1, "failed")] == attempts(connection, handle.id)


@both_colours
async def test_a_commit_that_is_under_way_is_waited_for(
    app: Orchestrator,
    connection: psycopg.Connection,
    proxy: Proxy,
    colour: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection breaks while the server commits: the check finds the row locked, and not gone yet."""
    connection.execute(SLOW_COMMIT.format(seconds=1.5))
    asked: list[bool] = []
    ask = Transaction._ask

    async def noted(self: Transaction, failure: Any) -> bool:
        asked.append(await ask(self, failure))
        return asked[-1]

    monkeypatch.setattr(Transaction, "_ask", noted)
    handle = writing(app, colour).enqueue()

    async with working(app):
        await until(lambda: committing(connection), "it commits")
        proxy.cut()
        await until(lambda: asked, "it is found out")

    assert [True] == asked
    assert ("completed", [(handle.id, 1)]) == (status(connection, handle.id), entries(connection))


@both_colours
def test_a_connection_that_breaks_just_before_the_commit_is_no_success(
    app: Orchestrator, connection: psycopg.Connection, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg then leaves the block without an error, as if it had committed."""
    accept = Transaction._accept

    def accept_and_break(self: Transaction, ends: LeaseEnds | None) -> None:
        accept(self, ends)
        if self._task.attempt == 1:
            (self._async if colour == "async" else self._sync).pgconn.finish()  # type: ignore[union-attr]

    monkeypatch.setattr(Transaction, "_accept", accept_and_break)
    handle = writing(app, colour, backoff=AT_ONCE).enqueue()
    run_until_empty(app)

    assert ("completed", [(handle.id, 2)]) == (status(connection, handle.id), entries(connection))
    assert [(1, "failed")] == attempts(connection, handle.id)


def committing(connection: psycopg.Connection) -> bool:
    query = "SELECT FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep'"
    return bool(connection.execute(query).fetchall())


async def test_a_handler_that_goes_on_after_its_lost_commit_loses_its_slot(
    make_app: MakeApp, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker was declared dead during the COMMIT, and waited for the answer before it left the handler behind."""
    monkeypatch.setattr(end_attempts, "CANCEL_SECONDS", 0.1)
    connection.execute(SLOW_COMMIT.format(seconds=PATIENCE_SECONDS))
    app = make_app(poll_seconds=0.1, heartbeat_seconds=0.1)
    let_go = asyncio.Event()
    asked_to_wait: list[object] = []
    leave_behind = AttemptEnder._leave_behind

    def noted(self: AttemptEnder, attempt: Any) -> None:
        leave_behind(self, attempt)
        asked_to_wait.append(attempt)

    monkeypatch.setattr(AttemptEnder, "_leave_behind", noted)

    @app.task(name="stubborn")
    async def stubborn(context: Context) -> None:
        with suppress(asyncio.CancelledError, Exception):
            async with context.transaction() as own:
                await own.execute(ENTRY, [context.id, context.attempt])
        while not let_go.is_set():
            with suppress(asyncio.CancelledError):
                await let_go.wait()

    await stubborn.aenqueue()
    with recorded(events.WorkerDeclaredDead, events.HandlerAbandoned) as seen:
        async with working(app, concurrency=1):
            try:
                await until(lambda: committing(connection), "it commits")
                connection.execute("UPDATE orchestrator.workers SET state = 'dead'")
                await until(lambda: asked_to_wait, "its end waits for the answer")
                assert [events.WorkerDeclaredDead] == list(map(type, seen))
                connection.execute(TERMINATE)
                await until(lambda: len(seen) == 2, "it is left behind")
            finally:
                let_go.set()
    assert events.HandlerAbandoned is type(seen[1])


@both_colours
@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "does not"])
def test_a_doubt_without_an_answer_is_left_to_the_lease(
    app: Orchestrator,
    connection: psycopg.Connection,
    proxy: Proxy,
    colour: str,
    arrives: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attempt fails. That is written only if the commit was not, so no committed task runs again."""

    async def nobody(self: Transaction, connection: object) -> bool:
        raise psycopg.OperationalError("the server closed the connection")

    monkeypatch.setattr(transaction, "DOUBT_SECONDS", 0.3)
    monkeypatch.setattr(Transaction, "_was_committed", nobody)
    runs: Counter[int] = Counter()
    handle = writing(app, colour, inside=lambda context: runs.update([context.id]), backoff=AT_ONCE).enqueue()
    (proxy.cut_after if arrives else proxy.cut_before)(COMMIT)
    run_until_empty(app)

    attempt = 1 if arrives else 2
    assert ("completed", [(handle.id, attempt)]) == (status(connection, handle.id), entries(connection))
    assert ({handle.id: attempt}, [] if arrives else [(1, "failed")]) == (
        runs,
        attempts(connection, handle.id),
    )


@both_colours
def test_a_connection_that_ends_inside_fails_the_attempt(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """Its writes are undone. The next attempt has another connection."""

    def end(context: Context) -> None:
        if context.attempt == 1:
            connection.execute(TERMINATE)

    handle = writing(app, colour, inside=end, backoff=AT_ONCE).enqueue()
    run_until_empty(app)

    assert ("completed", [(handle.id, 2)]) == (status(connection, handle.id), entries(connection))
    assert [(1, "failed")] == attempts(connection, handle.id)


@both_colours
def test_a_connection_that_ended_while_it_was_idle_costs_nothing(
    app: Orchestrator, connection: psycopg.Connection, colour: str
) -> None:
    """The pool notices before the handler gets it."""
    write = writing(app, colour, after=lambda _: connection.execute(TERMINATE) and None)
    handles = [write.enqueue() for _ in range(5)]
    run_until_empty(app, concurrency=1)

    assert [(handle.id, 1) for handle in handles] == entries(connection)
    assert [[]] * 5 == [attempts(connection, handle.id) for handle in handles]


@both_colours
async def test_a_transaction_while_the_database_is_away_is_refused_soon(
    app: Orchestrator,
    connection: psycopg.Connection,
    outage: Outage,
    colour: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The handler gets the error in seconds, and the task is retried when its outcome can be written."""
    monkeypatch.setattr(transaction_pool, "PATIENCE_SECONDS", 0.3)
    refused: list[str] = []

    @app.task(name="away", backoff=AT_ONCE)
    async def away(context: Context) -> None:
        if context.attempt == 1:
            await asyncio.to_thread(outage.begin)
        try:
            async with context.transaction():
                pass
        except DatabaseUnavailable as error:
            refused.append(str(error))
            raise

    @app.task(name="away_in_thread", backoff=AT_ONCE)
    def away_in_thread(context: Context) -> None:
        if context.attempt == 1:
            outage.begin()
        try:
            with context.transaction():
                pass
        except DatabaseUnavailable as error:
            refused.append(str(error))
            raise

    handle = (away if colour == "async" else away_in_thread).enqueue()

    async with working(app):
        await until(lambda: refused, "it is refused", seconds=10)
        outage.end()
        await until(lambda: status(connection, handle.id) == "completed", "it is retried")

    assert task(connection, handle.id).attempt >= 2


@pytest.mark.parametrize("colour", ["def", long("async")])
def test_backends_that_are_ended_again_and_again_double_nothing(
    database_url: str, connection: psycopg.Connection, colour: str
) -> None:
    """At any moment: each task has one entry, and is completed."""
    app = Orchestrator(database_url, transaction_pool_size=4)
    write = writing(app, colour, max_attempts=1000, backoff=AT_ONCE)
    total = 200
    for _ in range(total):
        write.enqueue()

    async def main() -> None:
        async with working(app):
            for number in range(1, 9):
                enough = number * total // 10
                await until(lambda enough=enough: len(entries(connection)) >= enough, "some are done")  # type: ignore[misc]
                await asyncio.to_thread(connection.execute, TERMINATE)
            await until(lambda: one_each(connection, total), "all are completed")
        await app.aclose()

    asyncio.run(main())
    app.close()

    assert one_each(connection, total)


@both_colours
def test_a_doubt_is_resolved_through_pgbouncer(
    database_url: str,
    connection: psycopg.Connection,
    tmp_path: Path,
    colour: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In transaction mode, in which each transaction may use another session of the server."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(database_url, tmp_path, pool_size=3) as url, led_through(monkeypatch, url):
        app = Orchestrator(database_url, transaction_pool_size=6)
        write = writing(app, colour)
        for _ in range(60):
            write.enqueue()
        run_until_empty(app)
        app.close()

    assert one_each(connection, 60)
    assert [] == connection.execute("SELECT FROM orchestrator.attempts").fetchall()
