"""Sets: their contents, streaming, all or nothing, order, and the name of the bad item."""

import asyncio
import itertools
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from orchestrator import Orchestrator
from orchestrator.errors import EnqueueRefused, PayloadRefused
from tests.patience import eventually
from tests.producers.every_holder import COLOURS, asked, numbers, sending
from tests.worker.running import run_until_empty, task, value

TASKS = "SELECT count(*) FROM orchestrator.tasks"
WHAT_IT_BECAME = """
    SELECT type, queue, priority, max_attempts, timeout, payload, tags, metadata, status, run_at > created_at
    FROM orchestrator.tasks WHERE id = %s
"""
WAIT_FOR_A_LOCK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, 'enqueue_alike') > 0
"""
KEY_OF_TOO_MANY_CHARACTERS = "k" * 501


@COLOURS
def test_items_are_mappings_or_calls_and_ids_follow_their_order(
    colour: str, note: Any, connection: psycopg.Connection
) -> None:
    """Of any kind of mapping; the set runs in its own order."""
    items: list[Any] = [
        {"number": 0},
        MappingProxyType({"number": 1}),
        note.call(number=2),
        note.using(priority="high", tags=["a"]).call(number=3),
        {},
    ]

    handles = asked(colour, note.using(queue="others"), items)

    rows = connection.execute(
        "SELECT id, payload, queue, priority, tags FROM orchestrator.tasks ORDER BY id"
    ).fetchall()
    assert [handle.id for handle in handles] == [row[0] for row in rows]
    assert [{"number": 0}, {"number": 1}, {"number": 2}, {"number": 3}, {}] == [row[1] for row in rows]
    assert ["others", "others", "default", "default", "others"] == [row[2] for row in rows]
    assert (75, ["a"]) == (rows[3][3], rows[3][4])


@COLOURS
async def test_an_application_enqueues_several_types_at_once(
    colour: str, app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """Tasks of its own, and tasks of others by name."""

    @app.task(name="other", queue="others")
    def other(word: str) -> None: ...

    calls = [note.call(number=1), other.call(word="a"), app.call("far.away", {"x": [1]}, queue="far")]

    handles = app.enqueue_many(calls) if colour == "def" else await app.aenqueue_many(calls)

    rows = connection.execute(
        "SELECT id, type, queue, payload FROM orchestrator.tasks ORDER BY id"
    ).fetchall()
    assert [
        (handles[0].id, "note", "default", {"number": 1}),
        (handles[1].id, "other", "others", {"word": "a"}),
        (handles[2].id, "far.away", "far", {"x": [1]}),
    ] == rows


@COLOURS
@pytest.mark.parametrize("size", [3, 1_000, 1_001, 2_500])
def test_keys_are_taken_within_a_set_and_across_its_chunks(
    colour: str, size: int, note: Any, connection: psycopg.Connection
) -> None:
    """An item whose key is taken gets the handle of the task that has it: an older one, or an earlier item."""
    older = note.using(key="key-1").enqueue(number=-1)
    calls = [note.using(key=f"key-{n % 3}").call(number=n) for n in range(size)]

    handles = asked(colour, note.using(), calls)

    assert [True, False, True] == [handle.created for handle in handles[:3]]
    assert older.id == handles[1].id
    assert 3 == len({handle.id for handle in handles}) == value(connection, TASKS)
    assert [handles[n % 3].id for n in range(size)] == [handle.id for handle in handles]


@COLOURS
def test_an_empty_set_is_no_error(colour: str, note: Any, connection: psycopg.Connection) -> None:
    """And no error."""
    handles = asked(colour, note.using(), iter(()))

    assert (0, []) == (len(handles), list(handles))
    assert 0 == value(connection, TASKS)


class Watched:
    """An iterator that notes how far it was read before the tasks are enqueued."""

    def __init__(self, count: int, connection: psycopg.Connection) -> None:
        self._items = iter(range(count))
        self._connection = connection
        self.read = 0

    def __iter__(self) -> "Watched":
        return self

    def __next__(self) -> dict[str, int]:
        number = next(self._items)
        self.read += 1
        return {"number": number}

    @property
    def sent(self) -> int:
        """How many ids were drawn, by any session."""
        drawn = value(
            self._connection, "SELECT last_value - (NOT is_called)::int FROM orchestrator.tasks_id_seq"
        )
        return int(drawn)


@COLOURS
def test_a_generator_is_read_two_chunks_ahead_at_most(
    colour: str, note: Any, connection: psycopg.Connection
) -> None:
    """So it may read from a cursor. One chunk is on its way while the next one is read."""
    ahead: list[int] = []
    watched = Watched(3_500, connection)

    def looked_at() -> Iterator[dict[str, int]]:
        for item in watched:
            if watched.read % 250 == 0:
                ahead.append(watched.read - watched.sent)
            yield item

    asked(colour, note.using(), looked_at())

    assert 14 == len(ahead)
    assert max(ahead) <= 2 * sending.CHUNK_ITEMS


def test_large_items_make_smaller_chunks(note: Any, connection: psycopg.Connection) -> None:
    """A thousand payloads of the largest size would be a quarter of a gigabyte."""
    watched, ahead = Watched(60, connection), []

    def large() -> Iterator[dict[str, str]]:
        for _ in watched:
            ahead.append(watched.read - watched.sent)
            yield {"text": "x" * 200_000}

    note.enqueue_many(large())

    assert max(ahead) <= 2 * (1 + sending.CHUNK_BYTES // 200_000)
    assert 60 == value(connection, TASKS)


@pytest.mark.long
@pytest.mark.parametrize(("colour", "size"), [("def", 200_000), ("async", 60_000)])
def test_two_hundred_thousand_are_streamed_in_bounded_memory(
    colour: str, size: int, note: Any, connection: psycopg.Connection
) -> None:
    """Neither items nor their JSON nor their handles stay in memory; nine bytes each do."""

    def watched() -> Iterator[dict[str, int]]:
        for item in numbers(size):
            if item["number"] == size - 40_000:
                tracemalloc.start()  # not before: it makes all of it three times as slow
            yield item

    try:
        handles = asked(colour, note.using(), watched())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    # Held, the last 40,000 items alone would be 20 MB.
    assert peak < 8_000_000
    assert size == len(handles) == value(connection, TASKS)
    assert handles[0].id < handles[size - 1].id
    assert handles[-1] == handles[size - 1]


def bad_items(note: Any) -> dict[str, tuple[Any, type[Exception], str]]:
    """Return invalid items, with the error of each, after its index."""
    return {
        "a wrong name": ({"nummer": 1}, TypeError, r": note: got an unexpected keyword argument 'nummer'"),
        "no mapping": (7, TypeError, r" is of type int; it must be a mapping of arguments, or a call"),
        "a payload": ({"text": "a\x00"}, PayloadRefused, r"\.payload\.text contains"),
        "an option": (note.using(priority=999).call(), EnqueueRefused, r": the priority is 999"),
        "the database": (
            note.using(key=KEY_OF_TOO_MANY_CHARACTERS).call(), EnqueueRefused, r": the idempotency key has 501",
        ),
        "both times": (
            note.using(delay=1, run_at=datetime.now(UTC)).call(),
            EnqueueRefused, r": run_at and delay were both given",
        ),
    }  # fmt: skip


@COLOURS
@pytest.mark.parametrize("index", [0, 1_700])
@pytest.mark.parametrize(
    "what", ["a wrong name", "no mapping", "a payload", "an option", "the database", "both times"]
)
def test_a_bad_item_names_its_index_and_nothing_is_enqueued(
    colour: str, index: int, what: str, note: Any, connection: psycopg.Connection
) -> None:
    """In the first chunk and in the second, found by Python or by the database."""
    item, error, sentence = bad_items(note)[what]
    items = itertools.chain(numbers(index), [item], numbers(700))

    with pytest.raises(error, match=rf"^items\[{index}\]{sentence}") as raised:
        asked(colour, note.using(), items)

    if isinstance(raised.value, EnqueueRefused):
        assert index == raised.value.item
    assert 0 == value(connection, TASKS)


@pytest.mark.parametrize("index", [0, 1_700])
def test_an_application_names_the_bad_call_too(
    index: int, app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """A value that is no call, and an invalid call."""
    for bad, error in (({"number": 1}, TypeError), (app.call("far", {"x": {1}}), PayloadRefused)):
        calls: Any = itertools.chain((note.call(number=n) for n in range(index)), [bad])
        with pytest.raises(error, match=rf"^items\[{index}\]"):
            app.enqueue_many(calls)

    assert 0 == value(connection, TASKS)


@COLOURS
@pytest.mark.parametrize("after", [0, 10, 1_500])
def test_a_generator_that_raises_rolls_the_whole_set_back(
    colour: str, after: int, note: Any, connection: psycopg.Connection
) -> None:
    """Its error is raised unchanged, and the pool's connection is usable."""

    def broken() -> Iterator[Mapping[str, int]]:
        yield from numbers(after)
        raise psycopg.errors.UniqueViolation("theirs")

    with pytest.raises(psycopg.errors.UniqueViolation, match="theirs"):
        asked(colour, note.using(), broken())

    assert 0 == value(connection, TASKS)
    assert 1 == len(asked(colour, note.using(), numbers(1)))


@COLOURS
def test_a_chunk_is_written_while_the_one_before_is_on_its_way(
    colour: str, note: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """The first chunk waits for a lock, and the items of the second are read meanwhile."""
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")

        def items() -> Iterator[Mapping[str, int]]:
            yield from numbers(sending.CHUNK_ITEMS + 10)
            eventually(lambda: 1 == value(connection, WAIT_FOR_A_LOCK), "the first chunk waits for the lock")
            holder.rollback()

        assert sending.CHUNK_ITEMS + 10 == len(asked(colour, note.using(), items()))

    assert sending.CHUNK_ITEMS + 10 == value(connection, TASKS)


def test_items_may_come_from_the_connection_that_enqueues_them(
    note: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """With savepoints of their own, which are rolled back: no chunk is inside of one."""
    with psycopg.connect(database_url) as mine:

        def items() -> Iterator[Mapping[str, int]]:
            for number in range(3 * sending.CHUNK_ITEMS):
                if number % 100 == 0:
                    with mine.transaction(force_rollback=True):
                        mine.execute("SELECT pg_sleep(0)")
                yield {"number": number}

        answered = note.using(mine).enqueue_many(items())

    assert 3 * sending.CHUNK_ITEMS == len(answered) == value(connection, TASKS)


def test_where_no_thread_starts_each_chunk_is_sent_once(
    note: Any, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As at the end of an interpreter, or at the limit of a machine."""
    start, tries = threading.Thread.start, itertools.count()

    def seldom(thread: threading.Thread) -> None:
        if thread.name.startswith("orchestrator enqueue") and next(tries) == 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", seldom)

    assert 2_500 == len(note.enqueue_many(numbers(2_500)))
    assert next(tries) > 0
    assert 2_500 == value(connection, TASKS)


def test_an_error_does_not_wait_for_the_chunk_on_its_way(
    note: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """For instance Ctrl-C: the statement, which waits for a lock, is cancelled."""
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")

        def items() -> Iterator[Mapping[str, int]]:
            yield from numbers(sending.CHUNK_ITEMS + 10)
            eventually(lambda: 1 == value(connection, WAIT_FOR_A_LOCK), "the first chunk waits for the lock")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            note.enqueue_many(items())

    assert 0 == value(connection, TASKS)
    assert 3 == len(note.enqueue_many(numbers(3)))


async def test_a_set_that_is_cancelled_on_its_way_is_not_there(
    app: Orchestrator, note: Any, connection: psycopg.Connection, database_url: str
) -> None:
    """No statement of it is left on the connection, which serves the next caller."""
    with psycopg.connect(database_url) as holder:
        holder.execute("LOCK TABLE orchestrator.tasks_live IN ACCESS EXCLUSIVE MODE")
        sent = asyncio.create_task(note.aenqueue_many(numbers(3 * sending.CHUNK_ITEMS)))
        await asyncio.to_thread(
            eventually, lambda: value(connection, WAIT_FOR_A_LOCK) > 0, "it waits for the lock"
        )
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent

    assert 0 == value(connection, TASKS)
    assert 3 == len(await note.aenqueue_many(numbers(3)))
    await app.aclose()


async def test_a_task_may_enqueue_a_set_of_tasks(
    app: Orchestrator, note: Any, connection: psycopg.Connection
) -> None:
    """From a handler on the loop, and from one in a thread."""

    @app.task(name="fan.out")
    async def fan_out() -> int:
        return len(await note.aenqueue_many(numbers(1_200)))

    @app.task(name="fan.in")
    def fan_in() -> int:
        return len(note.enqueue_many(numbers(3)))

    first, second = fan_out.enqueue(), fan_in.enqueue()

    await app.arun_worker(until_empty=True)

    assert (1_200, 3) == (task(connection, first.id).result, task(connection, second.id).result)
    assert {"completed": 1_205} == dict(
        connection.execute("SELECT status, count(*) FROM orchestrator.tasks GROUP BY 1").fetchall()
    )


def test_a_set_waits_in_its_own_order(app: Orchestrator, connection: psycopg.Connection) -> None:
    """Equal in all else, the first item runs first."""
    seen: list[int] = []

    @app.task(name="ordered")
    async def ordered(number: int) -> None:
        seen.append(number)

    ordered.enqueue_many(numbers(1_500))
    run_until_empty(app, concurrency=1)

    assert list(range(1_500)) == seen


@COLOURS
def test_all_kinds_of_sets_make_the_same_tasks(
    colour: str, app: Orchestrator, connection: psycopg.Connection
) -> None:
    """A set in which all tasks have the same options, a set in which each has a key, and single tasks."""
    task = app.task(name="alike", queue="mail", priority=75, max_attempts=7, timeout="90s")(
        lambda **given: None
    )
    options: dict[str, Any] = {"delay": "1h", "tags": ["grüße", "b"], "metadata": {"m": [1]}}
    payloads: list[dict[str, Any]] = [
        {"n": 1},
        {"text": 'naïve "☃"\n'},
        {},
        {"float": 1e23, "deep": {"a": [None, True]}},
    ]

    alike = asked(colour, task.using(**options), payloads)
    plain = asked(colour, task.using(delay="1h"), payloads)
    keyed = asked(
        colour,
        task.using(),
        [task.using(key=str(n), **options).call(**given) for n, given in enumerate(payloads)],
    )
    single = [task.using(**options).enqueue(**given) for given in payloads]

    found = [
        [connection.execute(WHAT_IT_BECAME, [handle.id]).fetchone() for handle in handles]
        for handles in (alike, keyed, single, plain)
    ]
    assert found[0] == found[1] == found[2]
    assert [(*row[:6], *row[8:]) for row in found[0] if row] == [
        (*row[:6], *row[8:]) for row in found[3] if row
    ]
    assert payloads == [row[5] for row in found[0] if row]
