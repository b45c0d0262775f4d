"""Statistics in the database: what a worker adds up, when it writes, and what can be read from it."""

import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from orchestrator import events
from orchestrator.events import bus
from orchestrator.observe import Statistics
from orchestrator.observe.statistics import KEYS_MAX, OTHER_TYPES, QUEUES_MAX
from orchestrator.postgres.session import SETTINGS
from orchestrator.task.buckets import BOUNDS, bounds, bucket, histogram
from orchestrator.task.tally import WORDS, Tally
from tests.clock import Clock
from tests.schema.rows import one

ME = uuid4()
MINUTES_BY_TYPE: LiteralString = """
SELECT array_agg(DISTINCT t.n)
FROM (SELECT sum(s.completed) AS n FROM orchestrator.statistics AS s GROUP BY s.type) AS t
"""
HOURS_BY_TYPE = MINUTES_BY_TYPE.replace("statistics", "statistics_by_hour")
NOON = datetime(2026, 11, 19, 12, 0, tzinfo=UTC)


def tally(queue: str = "mail", kind: str = "send", *, run: list[float] | None = None, **counts: int) -> Tally:
    times = histogram(run or [])
    return Tally(queue, kind, counts, wait=times, run=times)  # type: ignore[arg-type] # the words


def report_outcomes(*tallies: Tally, by: UUID = ME) -> None:
    events.emit(events.OutcomesWritten(by, 0.001, tallies))


@contextmanager
def counting(*, every_seconds: float = 0.000_001) -> Iterator[Statistics]:
    statistics = Statistics(every_seconds=every_seconds)
    statistics.answer_for(ME)
    statistics.start()
    try:
        yield statistics
    finally:
        statistics.stop()


def read(connection: psycopg.Connection, query: LiteralString, *given: object) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, given).fetchall()


def record(connection: psycopg.Connection, *rows: dict[str, Any]) -> None:
    connection.execute("SELECT orchestrator.record_statistics(%s)", [json.dumps(rows)])


def metrics(
    connection: psycopg.Connection, queue: str | None, window: str = "1 hour"
) -> list[dict[str, Any]]:
    return read(connection, "SELECT * FROM orchestrator.queue_metrics(%s, %s::interval)", queue, window)


def test_statistics_of_a_worker_are_added_up(connection: psycopg.Connection, clock: Clock) -> None:
    """In the row of the minute and in that of the hour, by queue and type. A second write adds to them."""
    clock.set(NOON + timedelta(minutes=34, seconds=56))
    with counting() as statistics:
        report_outcomes(tally(completed=2, run=[0.1, 3.0]), tally(kind="sort", failed=1, run=[0.1]))
        report_outcomes(tally(completed=1, run=[0.1]))
        statistics.write(connection)
        report_outcomes(tally(completed=4, lost=1, run=[3.0]))
        statistics.write(connection)
        statistics.write(connection)

    expected = [
        ("mail", "send", 7, 0, 1, {str(bucket(0.1)): 2, str(bucket(3.0)): 2}),
        ("mail", "sort", 0, 1, 0),
    ]
    minutes = read(connection, "SELECT * FROM orchestrator.statistics ORDER BY queue, type")
    hours = read(connection, "SELECT * FROM orchestrator.statistics_by_hour ORDER BY queue, type")
    assert [NOON + timedelta(minutes=34)] * 2 == [row.pop("minute") for row in minutes]
    assert [NOON] * 2 == [row.pop("hour") for row in hours]
    assert minutes == hours
    names = ("queue", "type", "completed", "failed", "lost")
    assert [row[:5] for row in expected] == [tuple(row[name] for name in names) for row in minutes]
    assert (expected[0][5], 6.2) == (minutes[0]["run"], round(minutes[0]["run_seconds"], 6))


def test_a_minute_ends_where_the_next_begins(connection: psycopg.Connection, clock: Clock) -> None:
    """For outcomes of the last moment of an hour, and of the first of the next, by the database's clock."""
    for moment in (NOON - timedelta(microseconds=1), NOON):
        clock.set(moment)
        record(connection, {"queue": "q", "type": "t", "completed": 1})

    minutes = read(connection, "SELECT minute FROM orchestrator.statistics ORDER BY minute")
    hours = read(connection, "SELECT hour FROM orchestrator.statistics_by_hour ORDER BY hour")

    assert [NOON - timedelta(minutes=1), NOON] == [row["minute"] for row in minutes]
    assert [NOON - timedelta(hours=1), NOON] == [row["hour"] for row in hours]


def test_a_worker_counts_only_outcomes_under_its_own_ids(connection: psycopg.Connection) -> None:
    """Another worker of the same process may use another database. A worker that was declared dead has two ids."""
    later = uuid4()
    with counting() as statistics:
        statistics.answer_for(later)
        for worker_id in (ME, later, uuid4()):
            report_outcomes(tally(completed=1), by=worker_id)
        statistics.write(connection)

    assert 2 == one(connection, "SELECT sum(completed) FROM orchestrator.statistics")


def test_no_statistics_are_written_too_early_or_without_outcomes(connection: psycopg.Connection) -> None:
    """If statistics are switched off, nothing is counted."""
    with counting(every_seconds=3600) as statistics:
        report_outcomes(tally(completed=1))
        statistics.write_if_due(connection)
        assert 0 == one(connection, "SELECT count(*) FROM orchestrator.statistics")
    before = tuple(bus._subscribers)
    with counting(every_seconds=0):
        assert before == tuple(bus._subscribers)


def test_a_write_that_is_refused_is_made_up_for_by_the_next(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Behind another session's lock: delayed, reported, and written together with later counts."""
    told_of: list[events.Event] = []
    unsubscribe = events.subscribe(told_of.append, to=[events.DutyPutOff])
    with counting() as statistics, psycopg.connect(database_url, autocommit=True) as mine:
        mine.execute(SETTINGS)
        with connection.transaction():
            connection.execute("LOCK TABLE orchestrator.statistics_by_hour")
            report_outcomes(tally(completed=2, run=[1.0, 2.0]))
            statistics.write(mine)
        report_outcomes(tally(completed=1, run=[3.0]))
        statistics.write(mine)
    unsubscribe()

    (row,) = read(connection, "SELECT completed, run_seconds FROM orchestrator.statistics")
    assert {"completed": 3, "run_seconds": 6.0} == row
    assert ["statistics"] == [event.duty for event in told_of if isinstance(event, events.DutyPutOff)]


def test_a_write_that_may_have_succeeded_is_not_repeated(
    connection: psycopg.Connection, database_url: str
) -> None:
    """The connection broke during the write. Counts that are too low are better than counts that are too high."""
    with counting() as statistics:
        report_outcomes(tally(completed=1))
        with psycopg.connect(database_url, autocommit=True) as mine:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [mine.info.backend_pid])
            with pytest.raises(psycopg.OperationalError):
                statistics.write(mine)
        report_outcomes(tally(completed=4))
        statistics.write(connection)

    assert 4 == one(connection, "SELECT sum(completed) FROM orchestrator.statistics")


def test_hostile_names_are_names_and_there_are_not_too_many(connection: psycopg.Connection) -> None:
    """Any name of a task is one row. Beyond two hundred names the rest has one row."""
    names = [
        "'; DROP TABLE orchestrator.statistics; --",
        "\x1b[2J",
        "ü\u202e\n",
        '{"a": [1]}',
        "%s",
        "x" * 200,
    ]
    with counting() as statistics:
        report_outcomes(*(tally(kind=name, completed=1) for name in names))
        statistics.write(connection)
        report_outcomes(*(tally(kind=f"spam {n}", completed=1) for n in range(KEYS_MAX + 50)))
        report_outcomes(*(tally(kind=f"spam {n}", completed=1) for n in range(KEYS_MAX + 50)))
        statistics.write(connection)

    rows = read(connection, "SELECT type, completed FROM orchestrator.statistics")
    counts = {row["type"]: row["completed"] for row in rows}
    assert set(names) <= set(counts)
    assert (KEYS_MAX + 1 + len(names), 100) == (len(counts), counts[OTHER_TYPES])
    assert 2 * (KEYS_MAX + 50) + len(names) == sum(counts.values())


def test_the_number_of_rows_is_bounded_for_many_queues_too(connection: psycopg.Connection) -> None:
    """Beyond the types of the first queues there is one row for all others, and every outcome is counted."""
    with counting() as statistics:
        report_outcomes(*(tally(queue=f"queue {n}", completed=1) for n in range(KEYS_MAX + QUEUES_MAX + 50)))
        statistics.write(connection)

    rows = read(connection, "SELECT queue, type, completed FROM orchestrator.statistics")
    assert KEYS_MAX + QUEUES_MAX + 1 == len(rows) <= 300
    assert [50] == [row["completed"] for row in rows if row["queue"] == OTHER_TYPES]


def test_two_workers_never_wait_for_each_other(database_url: str, connection: psycopg.Connection) -> None:
    """Each has the same types in another order: no deadlock, and no count is lost."""
    rounds, types = 20, [f"type {n}" for n in range(40)]
    barrier = threading.Barrier(3)

    def tell(seed: int) -> None:
        dice = random.Random(seed)  # noqa: S311 - no secret
        with psycopg.connect(database_url, autocommit=True) as mine:
            barrier.wait(30)
            for _ in range(rounds):
                names = dice.sample(types, len(types))
                record(mine, *({"queue": "q", "type": name, "completed": 1} for name in names))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(tell, range(3)))

    for counted in (MINUTES_BY_TYPE, HOURS_BY_TYPE):
        assert [3 * rounds] == one(connection, counted)


def test_the_database_has_the_same_buckets(connection: psycopg.Connection) -> None:
    """To the last digit, so that a percentile has the same meaning for both."""
    query = "SELECT array_agg(orchestrator.bucket_begins(n) ORDER BY n) FROM generate_series(0, %s) AS n"

    assert list(BOUNDS) == one(connection, query, [len(BOUNDS) - 1])


def test_a_count_of_no_bucket_is_refused_or_put_where_it_belongs(connection: psycopg.Connection) -> None:
    """Other programs may write, too; the table never has counts that queue_metrics could not read."""
    record(connection, {"queue": "q", "type": "t", "run": {"900": 1, "-1": 2}})
    wrongs: list[Any] = [{"queue": "q", "type": "t", "run": {"x": 1}}, {"queue": "q"}, "no object"]
    for wrong in wrongs:
        with pytest.raises(psycopg.Error, match="takes a JSON array with one object") as refused:
            record(connection, wrong)
        assert "OR006" == refused.value.sqlstate

    assert {"0": 2, "141": 1} == one(connection, "SELECT run FROM orchestrator.statistics")


@pytest.mark.parametrize("window", ["10 minutes", "1 day"])
def test_percentiles_are_right_to_the_width_of_a_bucket(
    connection: psycopg.Connection, clock: Clock, window: str
) -> None:
    """Compared with the true ones, for times from a tenth of a millisecond to hours, from several workers."""
    dice = random.Random(7)  # noqa: S311 - no secret
    times = [10 ** dice.uniform(-4, 4) for _ in range(2000)] + [0.25] * 400
    for n in range(4):
        some = histogram(times[n::4]).buckets
        row = {"queue": "q", "type": f"t{n}", "completed": 600, "wait": some, "run": some}
        record(connection, row)
        clock.advance(seconds=50)
    times.sort()

    total, *types = metrics(connection, "q", window)

    assert (None, ["t0", "t1", "t2", "t3"]) == (total["type"], [row["type"] for row in types])
    for part in (50, 95, 99):
        true = times[len(times) * part // 100]
        for what in ("wait", "run"):
            begin, end = bounds(bucket(true))
            found = total[f"{what}_p{part}_seconds"]
            assert begin * 0.75 <= found <= end * 1.25, (what, part, true, found)
            assert abs(found - true) <= max(0.1 * true, end - begin), (what, part, true, found)


def test_metrics_have_the_rates_of_the_window(connection: psycopg.Connection, clock: Clock) -> None:
    """From the first full minute on, by queue and by type, without older rows and other queues."""
    clock.set(NOON)
    record(connection, {"queue": "q", "type": "a", "completed": 1000})
    clock.set(NOON + timedelta(minutes=10))
    row = {
        "completed": 60,
        "failed": 10,
        "timed_out": 5,
        "dead_lettered": 4,
        "lost": 1,
        "cancelled": 20,
        "snoozed": 7,
    }
    record(connection, {"queue": "q", "type": "a", **row}, {"queue": "q", "type": "b", "completed": 60})
    record(connection, {"queue": "other", "type": "a", "put_back": 3, "released": 2})

    total, first, second = metrics(connection, "q", "2 minutes")

    assert row | {"completed": 120} == {word: total[word] for word in WORDS if total[word]}
    assert (1.0, 0.5, 0.5) == (total["per_second"], first["per_second"], second["per_second"])
    assert (20 / 160, 20 / 100, 0.0) == (total["error_rate"], first["error_rate"], second["error_rate"])
    assert first["run_p95_seconds"] is None
    assert 1120 == metrics(connection, "q", "1 day")[0]["completed"]
    others = [(row["queue"], row["type"], row["error_rate"]) for row in metrics(connection, None)]
    assert [("other", None, None), ("other", "a", None), ("q", None)] == [*others[:2], others[2][:2]]
    assert [] == metrics(connection, "nowhere")
