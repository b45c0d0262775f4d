"""One row with values outside of every range, and the leader's work on all the others.

The tests plant such rows without constraints and triggers, as an older version, or an owner, may have written them.
"""

from functools import partial

import psycopg
import pytest

from orchestrator import events
from orchestrator.maintain import (
    KINDS,
    Recovery,
    Walk,
    any_overdue,
    finished,
    partitions,
    recover,
    retention,
    sample,
    timeouts,
)
from orchestrator.maintain.skip_bad_rows import skipping_bad_rows
from orchestrator.operate.queues import queues
from tests.clock import Clock
from tests.maintain.rounds import do, do_all
from tests.schema.rows import one, put, read
from tests.stations.worker import Mate

DECLARE = "INSERT INTO orchestrator.types (name) VALUES ('mail')"
BEAT = "UPDATE orchestrator.workers SET beat_at = orchestrator.clock()"
CHECKS = "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c'"
CHANGE = "UPDATE orchestrator.{} SET {}"
FOR_EVER = "178000000 years"
# With this much aging the place of a task that was due in 2020 just fits a bigint, and no later one does.
AGING_US = (2**63 - 1 - 1_577_836_800_000_000) // 100


def plant(connection: psycopg.Connection, table: str, change: str) -> None:
    """Change every row of a table to values that its constraints and triggers would refuse."""
    for (name,) in connection.execute(CHECKS, [f"orchestrator.{table}"]).fetchall():
        connection.execute(f"ALTER TABLE orchestrator.{table} DROP CONSTRAINT {name}".encode())
    connection.execute("SET session_replication_role = replica")
    assert connection.execute(CHANGE.format(table, change).encode()).rowcount > 0
    connection.execute("RESET session_replication_role")


def overdue(connection: psycopg.Connection, worker: Mate, **columns: object) -> int:
    """Add a task of a live worker that does not end it."""
    held = {"worker_id": worker.id, "started_at": "2020-01-01 UTC", "run_at": "2020-01-01 UTC", "priority": 0}
    return put(connection, "running", **{**held, **columns})


def statuses(connection: psycopg.Connection, *ids: int) -> list[str]:
    return [read(connection, task_id, "status") for task_id in ids]


@pytest.mark.parametrize(
    "change",
    [
        "backoff_base = '178000000 years'", "backoff_base = '-178000000 years'", "backoff_base = '-1 s'",
        "backoff_factor = 'NaN'", "backoff_factor = 'Infinity'", "backoff_factor = -1", "backoff_factor = 1e308",
        "backoff_cap = '178000000 years'", "backoff_cap = '-178000000 years'",
        "backoff_jitter = 'NaN'", "backoff_jitter = 'Infinity'", "backoff_jitter = -1e308",
    ],
)  # fmt: skip
def test_no_type_stops_the_timeouts(connection: psycopg.Connection, worker: Mate, change: str) -> None:
    """Neither of other types nor of its own: valid parts of its policy apply, and no wait exceeds 200 years."""
    connection.execute(DECLARE)
    plant(connection, "types", change)
    ids = [
        overdue(connection, worker, type=kind, attempt=attempt, max_attempts=32_767)
        for kind in ("mail", "other")
        for attempt in (1, 32_000)
    ]

    assert any_overdue(connection)
    do(connection, timeouts)

    assert {"scheduled", "pending"} >= set(statuses(connection, *ids))
    assert one(connection, "SELECT max(run_at) < now() + interval '201 years' FROM orchestrator.tasks_live")
    assert not any_overdue(connection)


@pytest.mark.parametrize(
    "columns",
    [
        {"timeout": FOR_EVER},
        {"started_at": "infinity"},
        {"started_at": "-infinity"},
        {"started_at": "294276-12-31 UTC"},
        {"started_at": "4714-11-24 BC UTC"},
        {"run_at": "4714-11-24 BC UTC"},
        {"attempt": 32_767, "max_attempts": 32_767},
        {"attempt": -32_768, "losses": 32_767},
        {"max_attempts": 1},
    ],
    ids=str,
)
def test_no_task_stops_the_timeouts(
    connection: psycopg.Connection, worker: Mate, columns: dict[str, object]
) -> None:
    """The other overdue tasks end."""
    before = overdue(connection, worker)
    overdue(connection, worker, **columns)
    after = overdue(connection, worker)

    assert any_overdue(connection)
    do(connection, timeouts)

    assert ["scheduled", "scheduled"] == statuses(connection, before, after)


def test_a_task_that_cannot_be_ended_is_reported_and_left_alone(
    connection: psycopg.Connection, worker: Mate, heard: list[events.Event]
) -> None:
    """The others end, and each round reports it again."""
    good = [overdue(connection, worker) for _ in range(3)]
    bad = overdue(connection, worker, aging_us=AGING_US)
    good += [overdue(connection, worker) for _ in range(4)]

    for _ in range(2):
        assert not do(connection, timeouts)

    assert ["scheduled"] * 7 == statuses(connection, *good)
    assert "running" == read(connection, bad, "status")
    skipped = events.DutyRowSkipped(
        "timeouts", f"task {bad}", "NumericValueOutOfRange", "bigint out of range"
    )
    assert [skipped, skipped] == [event for event in heard if isinstance(event, events.DutyRowSkipped)]
    assert 7 == sum(event.retried for event in heard if isinstance(event, events.TimeoutsEnforced))


@pytest.mark.parametrize(
    "columns",
    [
        {"losses": 32_767},
        {"losses": 32_767, "attempt": 32_767, "max_attempts": 32_767},
        {"attempt": -32_768},
        {"started_at": "infinity"},
        {"run_at": "4714-11-24 BC UTC", "timeout": FOR_EVER},
        {"aging_us": AGING_US},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", ["claimed", "running"])
def test_no_task_stops_recovery(
    connection: psycopg.Connection, worker: Mate, clock: Clock, columns: dict[str, object], status: str
) -> None:
    """The other tasks of its worker are given back, and so is this one."""
    held = {"worker_id": worker.id, "run_at": "2020-01-01 UTC", "priority": 0}
    before, bad, after = (put(connection, status, **{**held, **more}) for more in ({}, columns, {}))
    clock.advance(seconds=31)

    do(connection, recovers)

    assert ["pending", "pending"] == statuses(connection, before, after)
    assert read(connection, bad, "status") in ("pending", "dead_letter")


def recovers(connection: psycopg.Connection) -> bool:
    return recover(connection).may_be_more


def test_a_task_that_cannot_be_recovered_is_reported_and_left_alone(
    connection: psycopg.Connection, worker: Mate, clock: Clock, heard: list[events.Event]
) -> None:
    """Its worker is declared dead all the same, and its other tasks are given back."""
    held = {"worker_id": worker.id}
    first, bad, last = (put(connection, "running", **held) for _ in range(3))
    connection.execute(
        f"ALTER TABLE orchestrator.attempts ADD CONSTRAINT odd CHECK (task_id <> {bad})".encode()
    )
    clock.advance(seconds=31)

    for _ in range(2):
        do(connection, recovers)

    assert ["pending", "running", "pending"] == statuses(connection, first, bad, last)
    assert "dead" == one(connection, "SELECT state FROM orchestrator.workers")
    message = 'new row for relation "attempts" violates check constraint "odd"'
    skipped = events.DutyRowSkipped("recover", f"task {bad}", "CheckViolation", message)
    assert [skipped, skipped] == [event for event in heard if isinstance(event, events.DutyRowSkipped)]


def test_bad_rows_are_found_by_halves(connection: psycopg.Connection, heard: list[events.Event]) -> None:
    """A few tries for each bad row, and each other row is done once."""
    tries: list[list[int]] = []

    def work(ids: list[int]) -> int:
        tries.append(list(ids))
        (count,) = connection.execute(
            "SELECT count(1 / (n %% 500)) FROM unnest(%s::int[]) AS n", [list(ids)]
        ).fetchone() or (0,)
        return int(count)

    with connection.transaction():
        done = sum(skipping_bad_rows(connection, "duty", range(1, 1001), work))  # type: ignore[arg-type]  # a sequence

    assert 998 == done
    assert ["task 500", "task 1000"] == [
        event.row for event in heard if isinstance(event, events.DutyRowSkipped)
    ]
    assert len(tries) < 50


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "294276-12-31 UTC", "4714-11-24 BC UTC"])
def test_no_beat_stops_recovery(
    connection: psycopg.Connection, worker: Mate, clock: Clock, moment: str
) -> None:
    """A worker with a beat time that Python cannot load is checked like the others, and is declared dead or gets a
    new time."""
    lost = put(connection, "running", worker_id="00000000-0000-4000-8000-00000000dead")
    plant(connection, "workers", f"beat_at = '{moment}'")
    recovery = Recovery()

    assert recovery.is_worth(connection)
    do(connection, recovers)

    assert "pending" == read(connection, lost, "status")
    state = "dead" if moment.startswith("-") or "BC" in moment else "running"
    assert state == one(connection, "SELECT state FROM orchestrator.workers")
    assert state == "dead" or one(
        connection, "SELECT beat_at = orchestrator.clock() FROM orchestrator.workers"
    )


@pytest.mark.parametrize("period", [FOR_EVER, f"-{FOR_EVER}", "-1 day"])
@pytest.mark.parametrize("duty", [*KINDS, "finished", "partitions"])
def test_no_period_stops_retention(connection: psycopg.Connection, period: str, duty: str) -> None:
    """Neither of a queue nor of the whole installation: due rows of other queues are deleted."""
    connection.execute("INSERT INTO orchestrator.queues (name) VALUES ('odd')")
    for queue in ("odd", "mail"):
        put(connection, "dead_letter", queue=queue, finished_at="2020-01-01 UTC")
    plant(connection, "queues", f"keep_finished = '{period}', keep_dead = '{period}'")
    plant(
        connection,
        "settings",
        f"keep_audit = '{period}', keep_workers = '{period}', keep_statistics = '{period}'",
    )

    if duty == "finished":
        do_all(connection, partial(finished, walk=Walk()))
    elif duty == "partitions":
        do_all(connection, partitions)
    else:
        do_all(connection, partial(retention, kind=duty))  # type: ignore[arg-type]  # one of KINDS

    left = one(connection, "SELECT count(*) FROM orchestrator.tasks_dead WHERE queue = 'mail'")
    assert (0 if duty == "dead_letters" else 1) == left


@pytest.mark.parametrize("run_at", ["4714-11-24 BC UTC", "290000-01-01 UTC"])
@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_no_task_stops_the_sample(connection: psycopg.Connection, status: str, run_at: str) -> None:
    """It is counted, without a time that Python cannot load."""
    put(connection, status, run_at=run_at)
    put(connection, status, run_at="2020-01-01 UTC")

    do(connection, sample)

    (count, oldest, due) = connection.execute(
        "SELECT pending + scheduled, oldest_ready_at, next_due_at FROM orchestrator.samples"
    ).fetchone() or (0, None, None)
    assert 2 == count
    assert 2020 == (oldest or due).year


@pytest.mark.parametrize("run_at", ["4714-11-24 BC UTC", "290000-01-01 UTC"])
@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_no_task_hides_the_queues(connection: psycopg.Connection, status: str, run_at: str) -> None:
    """They are listed, and no time is shown that Python cannot load."""
    put(connection, status, run_at=run_at)

    (queue,) = queues(connection)

    assert 1 == (queue.ready or 0) + (queue.scheduled or 0)
    assert (None, None) == (queue.oldest_ready_age, queue.next_due_at)
