"""Coroutines that enqueue at the same time share a statement, and none of them notices."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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
from tests.patience import PATIENCE_SECONDS
from tests.proxy import Proxy
from tests.worker.running import value

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


class Standstill:
    """While it lasts, each enqueue waits for a lock."""

    def __init__(self, holder: psycopg.AsyncConnection[Any]) -> None:
        self._holder = holder

    async def waits_for(self, count: int) -> None:
        """Return when so many sessions wait, or more."""
        while await self.waiting() < count:  # noqa: ASYNC110 - the server knows it
            await asyncio.sleep(0.01)

    async def is_left(self) -> None:
        """Return when no session waits."""
        while await self.waiting():  # noqa: ASYNC110 - the server knows it
            await asyncio.sleep(0.01)

    async def waiting(self) -> int:
        cursor = await self._holder.execute(
            "SELECT count(*) FROM pg_locks WHERE relation = 'orchestrator.queues'::regclass AND NOT granted"
        )
        (count,) = await cursor.fetchone() or (0,)
        return int(count)

    async def end(self) -> None:
        await self._holder.commit()


@asynccontextmanager
async def standstill(url: str) -> AsyncIterator[Standstill]:
    """Hold the lock during the block."""
    async with await psycopg.AsyncConnection.connect(url) as holder:
        await holder.execute("LOCK TABLE orchestrator.queues IN ACCESS EXCLUSIVE MODE")
        yield Standstill(holder)


def test_a_server_that_hangs_gets_no_more_connections_than_the_pool_may_have(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many coroutines wait. One of them all waits for the pool."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.02)
    app = Orchestrator(database_url, pool_size=3)
    note = app.task(name="note")(lambda number=0: None)

    async def main() -> list[Any]:
        async with standstill(database_url) as still:
            calls: list[Any] = []
            for waiting in (1, 2, 3):
                calls += [asyncio.create_task(note.aenqueue(number=n)) for n in range(20)]
                await still.waits_for(waiting)
            calls += [asyncio.create_task(note.aenqueue(number=n)) for n in range(20)]
            pool = await app._producer.pools.on_loop()
            while not (waiting := pool.get_stats()["requests_waiting"]):  # noqa: ASYNC110 - it has no event
                await asyncio.sleep(0.01)
            assert (1, 3) == (waiting, await still.waiting())
            await asyncio.sleep(10 * gather.SLOW_SECONDS)
            assert (1, 3) == (pool.get_stats()["requests_waiting"], await still.waiting())
            await still.end()
            return await together(*calls)

    assert {"Handle"} == {type(each).__name__ for each in running(app, main())}


def test_a_send_whose_callers_have_all_given_up_is_cancelled(
    database_url: str, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller alone would have cancelled its own send. A request that was not sent is forgotten at once."""
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.05)
    app = Orchestrator(database_url, pool_size=2)
    note = app.task(name="note")(lambda number=0: None)

    async def main() -> None:
        async with standstill(database_url) as still:
            calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(10)]
            await still.waits_for(2)
            calls += [asyncio.create_task(note.aenqueue(number=n)) for n in range(10, 20)]
            await asyncio.sleep(0)
            (gathering,) = app._producer._gatherings.values()
            assert 9 <= len(gathering._waiting), "one may wait for the pool itself"
            for call in calls:
                call.cancel()
            await together(*calls)
            assert not gathering._waiting
            await still.is_left()
        await note.aenqueue(number=20)

    running(app, main())

    assert [20] == value(connection, NUMBERS)


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


about: ContextVar[str] = ContextVar("about")


def old(loop: asyncio.AbstractEventLoop, job: Any) -> asyncio.Task[Any]:
    """As those of before Python 3.11."""
    return asyncio.Task(job, loop=loop)


def tracing(loop: asyncio.AbstractEventLoop, job: Any, **given: Any) -> asyncio.Task[Any]:
    """It names each task after what its caller is about."""
    return asyncio.Task(job, loop=loop, name=about.get(), **given)


@pytest.mark.parametrize("factory", [old, tracing])
def test_no_task_factory_is_a_hindrance(app: Orchestrator, note: Any, factory: Any) -> None:
    """Neither one that takes no context, nor one that looks for something in it."""

    async def main() -> list[Any]:
        about.set("mail")
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        try:
            return await together(*(note.aenqueue(number=n) for n in range(5)))
        finally:
            loop.set_task_factory(None)

    assert {"Handle"} == {type(each).__name__ for each in running(app, main())}


def test_one_that_came_after_the_first_gets_another_try_for_a_connection(
    database_url: str, connection: psycopg.Connection
) -> None:
    """It does not fail with the first, which had waited for longer."""
    app = Orchestrator(database_url, pool_size=1, pool_timeout_seconds=1.0)
    note = app.task(name="note")(lambda number=0: None)

    async def main() -> list[Any]:
        async with AsyncExitStack() as held:
            await held.enter_async_context(app._producer.pools.aconnection())
            calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(3)]
            await asyncio.sleep(0.5)
            calls.append(asyncio.create_task(note.aenqueue(number=3)))
            await together(calls[0])
            await held.aclose()
            return await together(*calls)

    first, *_, late = running(app, main())

    assert isinstance(first, DatabaseUnavailable)
    assert late.created
    assert 3 in value(connection, NUMBERS)


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


def test_one_who_gives_up_before_a_refused_set_is_sent_again_is_not_enqueued(
    app: Orchestrator,
    note: Any,
    database_url: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may have been told to try again."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    monkeypatch.setattr(gather, "SLOW_SECONDS", 0.05)

    async def main() -> list[Any]:
        async with standstill(database_url) as still:
            first = asyncio.create_task(note.aenqueue(number=-1))
            calls = [asyncio.create_task(note.aenqueue(number=n)) for n in range(10)]
            refused = asyncio.create_task(note.using(queue="closed").aenqueue())
            await still.waits_for(2)
            for call in calls:
                call.cancel()
            await together(*calls)
            await still.end()
            return await together(first, refused)

    first, refused = running(app, main())

    assert first.created
    assert isinstance(refused, EnqueueRefused)
    assert [-1] == value(connection, NUMBERS)


def test_a_refusal_costs_the_others_little(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """What is before and behind the refused one goes together, on the same connection, in the order of the calls."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    closed = note.using(queue="closed")
    wrong = {1, 200, 201, 499}

    found = running(app, together(*((closed if n in wrong else note).aenqueue(number=n) for n in range(500))))

    assert wrong == {n for n, each in enumerate(found) if isinstance(each, EnqueueRefused)}
    assert sorted(set(range(500)) - wrong) == value(connection, NUMBERS)
    assert 5 * len(wrong) > value(connection, TRANSACTIONS)


def test_many_refusals_cost_little_more_than_one(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """A request is not sent again for each wrong one before it. The ids that were drawn count how often."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    closed = note.using(queue="closed")

    found = running(app, together(*(closed.aenqueue(number=n) for n in range(500)), note.aenqueue()))

    assert Counter({"EnqueueRefused": 500, "Handle": 1}) == Counter(type(each).__name__ for each in found)
    assert 500 * 12 > found[-1].id


def test_a_lost_answer_for_a_part_of_a_refused_set_leaves_no_doubt_for_the_rest(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The set as a whole was refused, and the rest was not sent again: that can be said."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('closed', 'draining')")
    with Proxy(database_url) as proxy:
        app = Orchestrator(proxy.url, pool_timeout_seconds=5.0)
        far = app.task(name="far")(lambda number=0: None)
        closed = far.using(queue="closed")

        async def main() -> list[Any]:
            await far.aenqueue(number=-1)
            # The statement of the part before the wrong one: the whole set is not alike.
            proxy.cut_after(b"orchestrator.enqueue_alike")
            return await together(
                *((closed if n == 6 else far).aenqueue(number=n) for n in range(20)),
            )

        found = running(app, main())

    kinds = [type(each) for each in found[1:]]
    assert ([EnqueueInDoubt] * 5, [DatabaseUnavailable] * 14) == (kinds[:5], kinds[5:])
    assert [-1, *range(6)] == value(connection, NUMBERS)


def test_a_set_has_its_limit(
    app: Orchestrator, note: Any, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In number and in bytes. One that is lost puts no more than these in doubt."""
    running(app, together(*(note.aenqueue(number=n) for n in range(1 + 2 * gather.SET_MAX + 1))))
    assert 1 + 3 == value(connection, TRANSACTIONS)

    connection.execute("DELETE FROM orchestrator.tasks")
    monkeypatch.setattr(gather, "SET_BYTES", 1)
    running(app, together(*(note.aenqueue(number=n) for n in range(5))))
    assert 5 == value(connection, TRANSACTIONS)


class Odd(Exception):
    """It cannot be made without what it is about."""

    def __new__(cls, *, about: str) -> "Odd":
        return super().__new__(cls)

    def __init__(self, *, about: str) -> None:
        super().__init__(about)


@pytest.mark.parametrize(
    "error", [ExceptionGroup("two", [ValueError(), ValueError()]), OSError(5, "broken"), Odd(about="mail")]
)
def test_every_error_reaches_all_callers(
    app: Orchestrator, note: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Its class may need arguments that the copy does not have. Its text stays."""

    @asynccontextmanager
    async def fail() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        raise error
        yield

    async def main() -> list[Any]:
        monkeypatch.setattr(app._producer.pools, "aconnection", fail)
        return await together(*(note.aenqueue(number=n) for n in range(5)))

    found = running(app, main())

    assert {type(error)} == {type(each) for each in found}
    assert {str(error)} == {str(each) for each in found}


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


def test_a_closed_loop_is_forgotten(app: Orchestrator, note: Any) -> None:
    """Even if callers were left waiting: they keep their loop, and their requests."""
    for _ in range(3):
        loop = asyncio.new_event_loop()
        call = loop.create_task(note.aenqueue())
        loop.run_until_complete(asyncio.sleep(0))
        call.cancel()
        loop.run_until_complete(together(call))
        loop.run_until_complete(app.aclose())
        loop.close()

    running(app, note.aenqueue())

    assert 1 == len(app._producer._gatherings)


def test_an_error_of_the_database_is_no_refusal_of_one_of_them(
    app: Orchestrator, note: Any, database_url: str, connection: psycopg.Connection
) -> None:
    """It fails all that shared the statement: each alone would wait for the lock once more, one after another."""
    connection.execute(f"ALTER DATABASE {connection.info.dbname} SET lock_timeout = '500ms'")

    async def main() -> list[Any]:
        async with standstill(database_url):
            return await together(*(note.aenqueue(number=n) for n in range(200)))

    assert [DatabaseUnavailable] * 200 == [type(each) for each in running(app, main())]
