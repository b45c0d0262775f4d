"""Coroutines that enqueue at the same time share a statement, and none of them notices."""

import asyncio
import threading
from collections import Counter
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import Any

import psycopg
import pytest

from orchestrator import (
    DatabaseUnavailable,
    EnqueueInDoubt,
    EnqueueRefused,
    Orchestrator,
    PayloadRefused,
    events,
)
from orchestrator.app import gather
from orchestrator.postgres import connect
from tests.patience import PATIENCE_SECONDS
from tests.proxy import Proxy
from tests.worker.running import until, value

TASKS = "SELECT count(*) FROM orchestrator.tasks"
NUMBERS = "SELECT array_agg((payload ->> 'number')::int ORDER BY id) FROM orchestrator.tasks"
TRANSACTIONS = "SELECT count(DISTINCT xmin::text) FROM orchestrator.tasks"


@pytest.fixture(autouse=True)
def _never_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the limit of a slow set off: after it another sender would send what the first one forgot."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 3600.0)


def running(app: Orchestrator, main: Any) -> Any:
    """Run a coroutine, and close the pool of its loop."""

    async def closing() -> Any:
        try:
            return await asyncio.wait_for(main, PATIENCE_SECONDS)
        finally:
            await app.aclose()

    return asyncio.run(closing())


async def together(*calls: Any) -> list[Any]:
    """Await all of them; an error takes the place of an answer."""
    return await asyncio.gather(*calls, return_exceptions=True)


def test_those_that_wait_go_together_in_the_order_of_the_calls(
    app: Orchestrator, note: Any, connection: psycopg.Connection, heard: list[events.Event]
) -> None:
    """The first has a statement of its own. Each caller gets the id of its own task."""
    handles = running(app, together(*(note.aenqueue(number=n) for n in range(50))))

    assert list(range(50)) == value(connection, NUMBERS)
    assert 2 == value(connection, TRANSACTIONS)
    rows = connection.execute("SELECT id, payload ->> 'number' FROM orchestrator.tasks").fetchall()
    assert {handle.id: str(n) for n, handle in enumerate(handles)} == dict(rows)
    assert all(handle.created for handle in handles)
    assert 50 == sum(event.count for event in heard if isinstance(event, events.TasksEnqueued))


def test_one_that_is_refused_fails_alone(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """Its error does not say where in a set it was: its caller has none. Nothing is enqueued twice."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    closed = note.using(queue="closed")

    found = running(app, together(*((closed if n % 10 == 5 else note).aenqueue(number=n) for n in range(30))))

    refused = {n: each for n, each in enumerate(found) if isinstance(each, Exception)}
    assert {5, 15, 25} == refused.keys()
    assert all(isinstance(each, EnqueueRefused) for each in refused.values())
    assert all(str(each).startswith("queue 'closed' is draining") for each in refused.values())
    assert sorted(set(range(30)) - {5, 15, 25}) == sorted(value(connection, NUMBERS))


def test_a_key_that_is_held_makes_no_other_caller_wait(
    app: Orchestrator, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """The transaction that holds it stays open until all others have their answers."""
    keyed = note.using(key="held")

    async def main() -> tuple[list[Any], Any]:
        async with await psycopg.AsyncConnection.connect(database_url) as holder:
            first = await note.using(holder, key="held").aenqueue(number=-1)
            waiting = asyncio.create_task(keyed.aenqueue(number=-2))
            others = await together(*(note.aenqueue(number=n) for n in range(20)))
            assert not waiting.done()
            await holder.commit()
            return others, (first, await waiting)

    others, (first, second) = running(app, main())

    assert 20 == len({handle.id for handle in others})
    assert (first.id, False) == (second.id, second.created)
    assert 21 == value(connection, TASKS)


def test_a_caller_that_gives_up_takes_nobody_with_it(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """Neither the first, whose statement is on its way, nor one that waits: that one is not enqueued."""

    async def main() -> list[Any]:
        calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(10)]
        await asyncio.sleep(0)
        calls[0].cancel()
        calls[4].cancel()
        return await together(*calls)

    found = running(app, main())

    given_up = [n for n, each in enumerate(found) if isinstance(each, asyncio.CancelledError)]
    assert [0, 4] == given_up
    assert {1, 2, 3, 5, 6, 7, 8, 9} == set(value(connection, NUMBERS)) - {0}


def test_a_lost_answer_is_in_doubt_for_all_of_the_statement_and_no_other(
    database_url: str, connection: psycopg.Connection
) -> None:
    """Nobody sends again what may be there."""
    with Proxy(database_url) as proxy:
        app = Orchestrator(proxy.url, pool_timeout_seconds=5.0)
        far = app.task(name="far")(lambda number=0: None)

        async def main() -> tuple[list[Any], list[Any]]:
            await far.aenqueue(number=-1)
            proxy.cut_after(b"orchestrator.enqueue_alike")
            first = await together(*(far.aenqueue(number=n) for n in range(10)))
            return first, await together(*(far.aenqueue(number=n) for n in range(10, 20)))

        first, later = running(app, main())

    assert Counter({"Handle": 1, "EnqueueInDoubt": 9}) == Counter(type(each).__name__ for each in first)
    assert all(isinstance(each, EnqueueInDoubt) for each in first[1:])
    assert {"Handle"} == {type(each).__name__ for each in later}
    assert list(range(-1, 20)) == sorted(value(connection, NUMBERS))


class Hole(Proxy):
    """It knows when it has swallowed something."""

    def __init__(self, url: str) -> None:
        self.swallowed = threading.Event()
        super().__init__(url)

    def lets_through(self) -> bool:
        lets = super().lets_through()
        if not lets:
            self.swallowed.set()
        return lets


def test_a_session_that_never_answers_holds_up_nobody_else(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither those that wait for it nor those that come later: they go on other connections."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 2.0)
    with Hole(database_url) as proxy:
        app = Orchestrator(proxy.url, pool_timeout_seconds=5.0)
        far = app.task(name="far")(lambda number=0: None)

        async def main() -> Any:
            await far.aenqueue(number=0)
            proxy.swallow()
            stuck = asyncio.create_task(far.aenqueue(number=1))
            early = [asyncio.create_task(far.aenqueue(number=n)) for n in range(2, 6)]
            await asyncio.to_thread(proxy.swallowed.wait, PATIENCE_SECONDS)
            proxy.heal()
            await together(*early, *(far.aenqueue(number=n) for n in range(6, 10)))
            assert not stuck.done()
            proxy.cut()
            return (await together(stuck))[0]

        assert isinstance(running(app, main()), EnqueueInDoubt)
    assert [0, *range(2, 10)] == sorted(value(connection, NUMBERS))


def test_a_server_that_hangs_gets_few_connections(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many coroutines wait."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.02)
    with Hole(database_url) as proxy:
        app = Orchestrator(proxy.url)
        far = app.task(name="far")(lambda number=0: None)

        async def main() -> int:
            await far.aenqueue(number=0)
            proxy.swallow()
            calls = [asyncio.create_task(far.aenqueue(number=n)) for n in range(50)]
            await until(lambda: len(senders()) == gather.SLOW_MAX - 1, "the first is a caller's own")
            await asyncio.sleep(10 * gather.SLOW_SECONDS)
            found = len(senders())
            for call in calls:
                call.cancel()
            proxy.cut()
            proxy.heal()
            return found

        assert gather.SLOW_MAX - 1 == running(app, main())


def test_one_that_only_the_database_refuses_fails_alone(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """Its exception cannot be made from what it keeps."""
    connection.execute("UPDATE orchestrator.settings SET payload_bytes_max = 100")

    found = running(app, together(*(note.aenqueue(number=10**200 if n == 5 else n) for n in range(20))))

    assert {5: PayloadRefused} == {
        n: type(each) for n, each in enumerate(found) if isinstance(each, Exception)
    }
    assert 19 == value(connection, TASKS)


def test_a_task_factory_that_takes_no_context_is_no_hindrance(app: Orchestrator, note: Any) -> None:
    """As those of before Python 3.11."""

    async def main() -> list[Any]:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, job: asyncio.Task(job, loop=loop))
        return await together(*(note.aenqueue(number=n) for n in range(5)))

    assert {"Handle"} == {type(each).__name__ for each in running(app, main())}


def test_what_another_sender_has_taken_does_not_fail_for_want_of_a_connection(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender gives up at the pool's timeout, at the moment when the next one gets a connection."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.5)
    app = Orchestrator(database_url, pool_size=1, pool_timeout_seconds=1.5)
    note = app.task(name="note")(lambda number=0: None)
    probes: list[str] = []

    async def main() -> list[Any]:
        async with AsyncExitStack() as held:
            await held.enter_async_context(app._producer.pools.aconnection())

            async def probe(info: str, **given: Any) -> Any:
                probes.append(info)
                if len(probes) == 2:  # the first is that of the caller whose request found none on its way
                    await held.aclose()
                    (gathering,) = app._producer._gatherings.values()
                    while gathering._waiting:  # noqa: ASYNC110 - until the next sender has taken it
                        await asyncio.sleep(0)
                return await open_async(info, **given)

            monkeypatch.setattr(connect, "open_async", probe)
            return await together(note.aenqueue(number=0), note.aenqueue(number=1))

    open_async = connect.open_async
    first, second = running(app, main())

    assert isinstance(first, DatabaseUnavailable)
    assert second.created
    assert [1] == value(connection, NUMBERS)


def senders() -> list[asyncio.Task[Any]]:
    return [one for one in asyncio.all_tasks() if "_send_waiting" in repr(one)]


@pytest.mark.parametrize("turns", [0, 1, 3, 10])
def test_a_sender_that_is_cancelled_stops_nobody(app: Orchestrator, note: Any, turns: int) -> None:
    """Not even before its first step, when it runs no code of its own. Whom it sent for is in doubt, not cancelled."""

    async def main() -> tuple[list[Any], Any]:
        calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(10)]
        while not senders():  # noqa: ASYNC110 - before its first step
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        for sender in senders():
            sender.cancel()
        return await together(*calls), await note.aenqueue(number=10)

    found, later = running(app, main())

    assert {"Handle", "EnqueueInDoubt"} >= {type(each).__name__ for each in found}
    assert later.created


def root(error: BaseException) -> str | None:
    """Return the text of the first exception that led to this one, if any did."""
    context = error.__context__
    while context is not None and context.__context__ is not None:
        context = context.__context__
    return None if context is None else str(context)


def test_callers_share_no_exception_and_no_context(app: Orchestrator, note: Any) -> None:
    """Else what one of them was about shows in the log of another."""
    about: ContextVar[str] = ContextVar("about")
    seen: list[str] = []
    away = Orchestrator("postgresql://127.0.0.1:1/none", pool_timeout_seconds=0.2)
    lost = away.task(name="lost")(lambda: None)

    async def call(task: Any, n: int) -> None:
        about.set(f"caller {n}")
        try:
            raise ValueError(f"secret of {n}")
        except ValueError:
            await task.aenqueue()

    unsubscribe = events.subscribe(lambda event: seen.append(about.get("nobody")))
    try:
        running(app, together(*(call(note, n) for n in range(10))))
    finally:
        unsubscribe()
    found = running(away, together(*(call(lost, n) for n in range(10))))

    assert {"caller 0", "nobody"} == set(seen)
    assert {DatabaseUnavailable} == {type(error) for error in found}
    assert 10 == len({id(error) for error in found})
    assert all(root(error) in (None, f"secret of {n}") for n, error in enumerate(found))


def test_one_who_gives_up_while_each_of_a_refused_set_is_sent_alone_is_not_enqueued(
    database_url: str, connection: psycopg.Connection
) -> None:
    """It may have been told to try again."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    app = Orchestrator(database_url, pool_size=1)
    note = app.task(name="note")(lambda number=0: None)

    async def main() -> list[Any]:
        first = asyncio.create_task(note.aenqueue(number=-1))
        refused = asyncio.create_task(note.using(queue="closed").aenqueue())
        calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(10)]
        await together(refused)
        for call in calls:
            call.cancel()
        return await together(first, *calls)

    running(app, main())

    assert 3 >= value(connection, TASKS), "one may have been on its way"


def test_without_a_database_they_do_not_wait_one_after_another() -> None:
    """Those that wait fail together, after at most twice the pool's time."""
    app = Orchestrator("postgresql://127.0.0.1:1/none", pool_timeout_seconds=0.5)
    note = app.task(name="note")(lambda: None)

    async def main() -> tuple[list[Any], float]:
        began = asyncio.get_running_loop().time()
        found = await together(*(note.aenqueue() for _ in range(20)))
        return found, asyncio.get_running_loop().time() - began

    found, took = running(app, main())

    assert {DatabaseUnavailable} == {type(each) for each in found}
    assert took < 20 * 0.5, "each waited for itself"


def test_each_loop_gathers_for_itself(app: Orchestrator, note: Any, connection: psycopg.Connection) -> None:
    """Two threads with a loop each, and a loop that comes after one that was closed."""

    def run() -> None:
        for _ in range(2):
            running(app, together(*(note.aenqueue() for _ in range(20))))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 80 == value(connection, TASKS)


@pytest.mark.parametrize("at", [0, 1, 5])
def test_a_loop_that_ends_leaves_nothing_behind(
    app: Orchestrator, note: Any, connection: psycopg.Connection, at: int
) -> None:
    """`asyncio.run` cancels all that is left. Python would warn of a task that nobody awaited, and that is an error
    here."""

    async def main() -> None:
        calls = [asyncio.create_task(note.aenqueue()) for _ in range(10)]
        for _ in range(at):
            await asyncio.sleep(0)
        assert not any(call.done() for call in calls)

    running(app, main())

    assert 10 >= value(connection, TASKS)
    handles = running(app, together(*(note.aenqueue() for _ in range(3))))
    assert 3 == len({handle.id for handle in handles})
