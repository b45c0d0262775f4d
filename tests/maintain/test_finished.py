"""Finished tasks of queues with a short retention, in leaves that stay for queues with a longer one."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest

from orchestrator import events
from orchestrator.maintain import Walk, finished
from tests.clock import Clock
from tests.maintain.rounds import do_all, do_at_once, reads
from tests.schema.rows import one, put

DAY = datetime(2020, 1, 1, tzinfo=UTC)
LEAF = "tasks_done_20200101"

FILL = """
INSERT INTO orchestrator.tasks_done (
    id, type, queue, status, priority, max_attempts, timeout, aging_us, run_at, finished_at
)
SELECT
    nextval('orchestrator.tasks_id_seq'), 'mail', %(queue)s, (ARRAY['completed', 'cancelled'])[1 + n %% 2],
    50, 4, '5 min', 0, %(at)s, %(at)s
FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture(autouse=True)
def periods(connection: psycopg.Connection, clock: Clock) -> None:
    """A queue with a long retention, one with a short one, and some without a setting."""
    clock.set(DAY + timedelta(hours=23))
    connection.execute(
        "INSERT INTO orchestrator.queues (name, keep_finished) VALUES ('patient', '10 days'), ('hasty', '2 days')"
    )
    connection.execute("SELECT orchestrator.ensure_partition('2020-01-01')")


def fill(connection: psycopg.Connection, queue: str, count: int = 1, *, at: datetime = DAY) -> None:
    connection.execute("SELECT orchestrator.ensure_partition(%s)", [at.date()])
    connection.execute(FILL, {"queue": queue, "count": count, "at": at})


def kept(connection: psycopg.Connection) -> dict[str, int]:
    """The number of remaining tasks of each queue."""
    rows = connection.execute("SELECT queue, count(*) FROM orchestrator.tasks_done GROUP BY queue").fetchall()
    return dict(rows)


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (3, {"patient": 1, "hasty": 1, "unknown": 1}),
        (3.01, {"patient": 1, "unknown": 1}),
        (8, {"patient": 1, "unknown": 1}),
        (8.01, {"patient": 1}),
        (11, {"patient": 1, "hasty": 1, "unknown": 1}),
    ],
)
def test_each_queue_keeps_its_tasks_for_its_own_time(
    connection: psycopg.Connection, clock: Clock, days: float, expected: dict[str, int]
) -> None:
    """Counted from the end of the day, as for whole leaves. This duty does not touch a leaf that is due as a whole."""
    last_moment = DAY + timedelta(days=1, microseconds=-1)
    for queue in ("patient", "hasty", "unknown"):
        fill(connection, queue, at=last_moment)
    clock.set(DAY + timedelta(days=days, microseconds=-1 if days in (3, 8) else 0))

    do_all(connection, partial(finished, walk=Walk()))

    assert expected == kept(connection)


def test_a_round_is_bounded(connection: psycopg.Connection, clock: Clock, heard: list[events.Event]) -> None:
    """By tasks if there are many, by pages if there are none."""
    fill(connection, "hasty", 25)
    fill(connection, "patient", 1000)
    clock.set(DAY + timedelta(days=4))
    duty = partial(finished, walk=Walk(), pages=3, batch_size=10)
    pages = one(connection, f"SELECT pg_relation_size('orchestrator.{LEAF}') / 8192")

    rounds = do_all(connection, duty)

    assert [10, 10, 5] == [event.count for event in heard if isinstance(event, events.RowsExpired)]
    # Three that delete, one for each three pages, one that finds no further leaf.
    assert 3 + -(-pages // 3) + 1 == rounds
    assert {"patient": 1000} == kept(connection)


def test_a_leaf_is_walked_once_for_each_period(connection: psycopg.Connection, clock: Clock) -> None:
    """Then the duty has nothing to do until another queue's tasks of that day are due, or an operator changes a
    period."""
    for queue in ("patient", "hasty", "unknown"):
        fill(connection, queue, 10)
    walk = Walk()
    duty = partial(finished, walk=walk)
    rounds = []
    for days in (4, 5, 9, 10):
        clock.set(DAY + timedelta(days=days))
        rounds.append(do_all(connection, duty))
    connection.execute("UPDATE orchestrator.queues SET keep_finished = '3 days' WHERE name = 'patient'")
    connection.execute("INSERT INTO orchestrator.queues (name, keep_finished) VALUES ('third', '99 days')")
    rounds.append(do_all(connection, duty))

    # One that deletes, one that sees that nothing is left, one that finds no further leaf.
    assert [3, 1, 3, 1, 3] == rounds
    assert {} == kept(connection)


def test_a_rolled_back_delete_is_repeated(connection: psycopg.Connection, clock: Clock) -> None:
    """The remembered position moves only after a commit."""
    fill(connection, "hasty", 10)
    clock.set(DAY + timedelta(days=4))
    walk = Walk()
    with connection.transaction(force_rollback=True):
        assert finished(connection, walk)

    do_all(connection, partial(finished, walk=walk))

    assert {} == kept(connection)


def test_locked_tasks_hold_up_neither_the_rest_nor_the_leaves_behind(
    connection: psycopg.Connection, database_url: str, clock: Clock
) -> None:
    """A batch with only locked tasks is no end; a later pass walks their leaf again."""
    for day in (0, 1, 2):
        fill(connection, "hasty", 30, at=DAY + timedelta(days=day))
    clock.set(DAY + timedelta(days=6))
    walk = Walk()
    with psycopg.connect(database_url) as operator:
        operator.execute(f"SELECT FROM orchestrator.{LEAF} LIMIT 20 FOR UPDATE".encode())
        do_all(connection, partial(finished, walk=walk))
        assert {"hasty": 20} == kept(connection)

    do_all(connection, partial(finished, walk=walk))
    assert {} == kept(connection)


def test_two_leaders_at_once_are_one(connection: psycopg.Connection, database_url: str, clock: Clock) -> None:
    """Each with its own position, through the same leaf."""
    for _ in range(5):
        fill(connection, "hasty", 100)
        fill(connection, "patient", 10)
    clock.set(DAY + timedelta(days=4))

    walks: defaultdict[psycopg.Connection, Walk] = defaultdict(Walk)

    do_at_once(database_url, lambda leader: finished(leader, walks[leader], batch_size=50))

    assert {"patient": 50} == kept(connection)


def test_pages_are_read_and_no_leaf_else(connection: psycopg.Connection, clock: Clock) -> None:
    """Only a range of pages, wherever the due ones lie; neither the whole leaf nor the other leaves."""
    fill(connection, "patient", 20_000)
    fill(connection, "hasty", 100)
    fill(connection, "patient", 100, at=DAY + timedelta(days=1))
    clock.set(DAY + timedelta(days=4))
    connection.execute("ANALYZE")
    duty = partial(finished, walk=Walk(), pages=10, batch_size=100)

    whole, entries, indexes = reads(connection, duty, LEAF)

    # A TID range scan counts its rows as a sequential one does: those of ten pages, and not twenty thousand.
    assert 100 <= whole <= 10 * 150
    assert (0, []) == (entries, indexes)
    assert (0, 0, []) == reads(connection, duty, "tasks_done_20200102")


def test_no_other_table_is_taken_for_a_leaf(connection: psycopg.Connection, clock: Clock) -> None:
    """The name must be one of a leaf of tasks_done; in another table nothing is due."""
    put(connection, "dead_letter", queue="hasty", finished_at=DAY)
    clock.advance(days=9)
    for name in ("tasks_live", "tasks_dead", "audit", "tasks_done", "pg_class", "x; DROP TABLE audit"):
        row = connection.execute(
            "SELECT * FROM orchestrator.purge_finished(%s, 0, 10, 10)", [name]
        ).fetchone()
        assert (0, 0, None) == row

    assert 1 == one(connection, "SELECT count(*) FROM orchestrator.tasks_dead")
