"""Day leaves: they exist before their day begins, they are dropped when no queue keeps the day, and they never delay
a finish."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from orchestrator import events
from orchestrator.maintain import partitions
from orchestrator.task.outcome import Completed
from tests.clock import Clock
from tests.maintain.rounds import do, do_all, do_at_once
from tests.patience import eventually
from tests.schema.rows import one, put
from tests.stations.worker import Mate

OLD = datetime(2020, 1, 1, tzinfo=UTC)
WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'orchestrator.tasks_done'::regclass AND NOT granted)"


def leaves(connection: psycopg.Connection) -> list[str]:
    """The days with a leaf."""
    rows = connection.execute("SELECT right(leaf, 8) FROM orchestrator.day_leaves ORDER BY leaf").fetchall()
    return [day for (day,) in rows]


def make_old(connection: psycopg.Connection, count: int = 1) -> list[str]:
    """Make leaves of past days, each with a task."""
    days = [OLD + timedelta(days=n) for n in range(count)]
    for day in days:
        connection.execute("SELECT orchestrator.ensure_partition(%s)", [day.date()])
        put(connection, "completed", finished_at=day + timedelta(hours=12))
    return [f"{day:%Y%m%d}" for day in days]


@contextmanager
def reading(database_url: str, statement: str) -> Iterator[None]:
    """Hold an open transaction that has read this."""
    with psycopg.connect(database_url) as reader:
        reader.execute(statement.encode())
        yield


def test_there_is_a_leaf_for_today_and_a_week_ahead(connection: psycopg.Connection, clock: Clock) -> None:
    """Also after a long time without a leader."""
    clock.set(datetime(2030, 1, 1, 23, 59, tzinfo=UTC))

    do(connection, partitions)

    assert [f"203001{day:02}" for day in range(1, 9)] == [d for d in leaves(connection) if d > "20291231"]


def test_old_leaves_go_one_by_one(
    connection: psycopg.Connection, clock: Clock, heard: list[events.Event]
) -> None:
    """The oldest first; earlier ones stay until they are due."""
    make_old(connection, 2)
    today = f"{clock.now:%Y%m%d}"

    assert [True, True, False] == [do(connection, partitions) for _ in range(3)]

    assert [events.LeafDropped("tasks_done_20200101"), events.LeafDropped("tasks_done_20200102")] == heard
    assert today <= min(leaves(connection))


@pytest.mark.parametrize(("keep", "days"), [("1 day", 7), ("7 days", 7), ("10 days", 10)])
def test_a_leaf_stays_while_any_queue_keeps_its_day(
    connection: psycopg.Connection, clock: Clock, keep: str, days: int
) -> None:
    """To the exact time. The default of 7 days applies, because there may be queues without a row."""
    (day,) = make_old(connection)
    connection.execute("UPDATE orchestrator.queues SET keep_finished = %s", [keep])
    due_at = OLD + timedelta(days=1 + days)

    clock.set(due_at - timedelta(microseconds=1))
    do_all(connection, partitions)
    assert day in leaves(connection)

    clock.set(due_at)
    do(connection, partitions)
    assert day not in leaves(connection)


@pytest.mark.parametrize(
    "settings", ["timezone = 'Pacific/Kiritimati'", "timezone = 'Europe/Dublin'; SET datestyle = 'SQL, DMY'"]
)
def test_a_sessions_settings_make_no_leaf_due(
    connection: psycopg.Connection, clock: Clock, settings: str
) -> None:
    """The bound is read in UTC and ISO, with any settings of the caller: PostgreSQL 15 reads IST as Israel's time."""
    day = datetime(2020, 7, 1, tzinfo=UTC)
    connection.execute("SELECT orchestrator.ensure_partition(%s)", [day.date()])
    clock.set(day + timedelta(days=8, microseconds=-1))
    connection.execute(f"SET {settings}".encode())

    do(connection, partitions)

    assert f"{day:%Y%m%d}" in leaves(connection)


def test_a_report_on_a_leaf_puts_its_drop_off(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """The next leaf is dropped, the transaction goes on, and a finish is not delayed even while it is open."""
    first, second, third = make_old(connection, 3)
    put(connection)
    task = worker.take_one()
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    first_leaf, third_leaf = (
        f"TABLE orchestrator.tasks_done_{first}",
        f"TABLE orchestrator.tasks_done_{third}",
    )
    with reading(database_url, first_leaf), reading(database_url, third_leaf):
        assert [True, False] == [do(connection, partitions) for _ in range(2)]
        assert {first, third} == {first, second, third} & set(leaves(connection))
        with connection.transaction():
            assert not partitions(connection)
            assert 1 == one(connection, "SELECT 1")
            assert worker.finish(task, Completed(None))

    assert f"leaf tasks_done_{first} is in use and was not dropped" == notices[0]
    assert 3 == do_all(connection, partitions)
    assert not {first, third} & set(leaves(connection))


def test_a_report_on_all_leaves_holds_no_finish_up(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """Then the drop does not wait: if it cannot have a lock at once, it gives up."""
    make_old(connection, 3)
    put(connection)
    task = worker.take_one()
    with reading(database_url, "SELECT count(*) FROM orchestrator.tasks"), connection.transaction():
        assert not partitions(connection)
        assert worker.finish(task, Completed(None))


def test_a_drop_does_not_wait_for_a_reader_of_the_leaf(
    connection: psycopg.Connection, database_url: str, clock: Clock
) -> None:
    """Not even for its 100 ms, during which it would lock tasks_done: here it could wait longer than it may run."""
    (day,) = make_old(connection)
    connection.execute("ALTER FUNCTION orchestrator.drop_old_partition() SET lock_timeout = '60s'")

    with reading(database_url, f"TABLE orchestrator.tasks_done_{day}"):
        assert not do(connection, partitions)

    assert do(connection, partitions)


def test_a_finish_queues_behind_a_drop_for_a_moment_only(
    connection: psycopg.Connection, database_url: str, worker: Mate, clock: Clock
) -> None:
    """A reader of tasks_done delays the drop, and a finish waits behind it until the drop gives up, 100 ms later.

    Without its own limit the drop would wait 5 s here, and the finish would fail with a worker's limit of 250 ms."""
    make_old(connection)
    put(connection)
    task = worker.take_one()
    connection.execute("SET lock_timeout = '5s'")
    with (
        reading(database_url, "LOCK TABLE ONLY orchestrator.tasks_done IN ACCESS SHARE MODE"),
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(database_url, autocommit=True) as watch,
    ):
        drop = pool.submit(partitions, connection)
        eventually(lambda: drop.done() or one(watch, WAITS), "the drop waits for tasks_done")
        assert worker.finish(task, Completed(None))
        assert not drop.result(5)

    assert do(connection, partitions)


def test_two_leaders_at_once_are_one(connection: psycopg.Connection, database_url: str, clock: Clock) -> None:
    """One skips the leaf that the other drops; nothing else is dropped."""
    make_old(connection, 6)
    connection.execute(
        "SELECT orchestrator.ensure_partition((orchestrator.clock() - interval '5 days')::date)"
    )
    before = leaves(connection)

    do_at_once(database_url, partitions)
    do_all(connection, partitions)

    assert before[6:] == leaves(connection)
