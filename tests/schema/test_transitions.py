"""The effects of a manual UPDATE or DELETE on a task, and the refusals: the database's copy of TRANSITIONS."""

from itertools import product
from typing import LiteralString

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.task.status import FINISHED, LEASED, TRANSITIONS, ChangedBy, Status, may
from tests.schema.rows import FUTURE, WORKER, insert, one, put, read, refusal, rings, sleeping_worker

PAIRS = [(old, new) for old, new in product(Status, Status) if old is not new]
REQUEUE = "UPDATE orchestrator.tasks SET status = 'pending' WHERE id = %s"
STEP = "UPDATE orchestrator.tasks SET status = %s, run_at = coalesce(%s, run_at) WHERE id = %s"
CHANGE: LiteralString = "UPDATE orchestrator.tasks SET {}"
CANCEL = "UPDATE orchestrator.tasks SET status = 'cancelled' WHERE id = %s"


def test_the_database_allows_exactly_the_manual_transitions(connection: psycopg.Connection) -> None:
    """All pairs of two different statuses: allowed where TRANSITIONS has MANUAL, refused everywhere else."""
    for old, new in PAIRS:
        task_id = put(connection, old)
        # `scheduled` is asked for together with its time.
        params = [new, FUTURE if new is Status.SCHEDULED else None, task_id]
        if may(ChangedBy.MANUAL, old, new):
            connection.execute(STEP, params)
            assert new == read(connection, task_id, "status")
        else:
            diagnostic = refusal(connection, STEP, params)
            assert ("OR001", f"task {task_id} is {old}, and a manual change cannot make it {new}") == (
                diagnostic.sqlstate,
                diagnostic.message_primary,
            )
            assert diagnostic.message_hint
            assert old == read(connection, task_id, "status")


def test_only_a_manual_change_leads_back_from_an_end() -> None:
    """No worker ever writes to a finished task."""
    assert not any(ChangedBy.WORKER in who for end in FINISHED for who in TRANSITIONS[end].values())


@pytest.mark.parametrize("status", Status)
def test_setting_the_same_status_changes_nothing(connection: psycopg.Connection, status: Status) -> None:
    """A requeue of a pending task and a cancel of a cancelled task leave the row, its lease and its times."""
    task_id = put(connection, status)
    before = read(connection, task_id, "*")

    connection.execute("UPDATE orchestrator.tasks SET status = status WHERE id = %s", [task_id])

    assert before == read(connection, task_id, "*")
    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.audit")


def test_an_unknown_status_is_refused_with_the_known_ones(connection: psycopg.Connection) -> None:
    """A typing error gets the list."""
    diagnostic = refusal(
        connection, "UPDATE orchestrator.tasks SET status = 'done' WHERE id = %s", [put(connection)]
    )

    assert "OR001" == diagnostic.sqlstate
    assert "dead_letter" in (diagnostic.message_hint or "")


def test_a_status_of_null_is_refused(connection: psycopg.Connection) -> None:
    """NULL is no status."""
    diagnostic = refusal(
        connection, "UPDATE orchestrator.tasks SET status = NULL WHERE id = %s", [put(connection)]
    )

    assert "OR001" == diagnostic.sqlstate


@pytest.mark.parametrize("status", [*sorted(FINISHED), *sorted(LEASED)])
def test_a_requeue_starts_afresh_in_the_live_part(connection: psycopg.Connection, status: Status) -> None:
    """Attempt, losses, error, result, progress, lease, worker and times are cleared; the row is ready now."""
    task_id = put(connection, status)

    connection.execute(REQUEUE, [task_id])

    expected = ("pending", "orchestrator.tasks_live", 0, 0, 8, True)
    assert expected == read(
        connection, task_id, "status", "tableoid::regclass::text", "attempt", "losses",
        "num_nulls(error, result, progress, lease, worker_id, claimed_at, started_at, finished_at)",
        "run_at BETWEEN clock_timestamp() - interval '1 minute' AND clock_timestamp()",
    )  # fmt: skip


def test_a_requeue_for_later_waits_with_fresh_attempts(connection: psycopg.Connection) -> None:
    """A dead letter may get a time when it is requeued."""
    task_id = put(connection, "dead_letter")

    connection.execute(
        "UPDATE orchestrator.tasks SET status = 'pending', run_at = %s WHERE id = %s", [FUTURE, task_id]
    )

    assert ("scheduled", FUTURE, 0) == read(connection, task_id, "status", "run_at", "attempt")


def test_a_retry_that_is_hurried_keeps_its_attempts(connection: psycopg.Connection) -> None:
    """A waiting task has not ended: a manual change to pending means now, not fresh attempts."""
    task_id = put(connection, "scheduled", attempt=2)

    connection.execute(REQUEUE, [task_id])

    assert ("pending", 2, True) == read(
        connection, task_id, "status", "attempt", "run_at <= clock_timestamp()"
    )


@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_a_blocked_task_that_is_opened_keeps_its_place(connection: psycopg.Connection, status: str) -> None:
    """It has waited all the time, so it stays before later tasks."""
    task_id = put(connection, "blocked", run_at="2020-01-01 UTC", attempt=1)
    before = read(connection, task_id, "run_at", "position", "attempt")

    connection.execute(
        "UPDATE orchestrator.tasks_live SET status = %s WHERE id = %s AND status = 'blocked'",
        [status, task_id],
    )

    assert (status, *before) == read(connection, task_id, "status", "run_at", "position", "attempt")


def test_a_running_task_that_is_cancelled_is_done_and_fenced_off(connection: psycopg.Connection) -> None:
    """It moves to tasks_done, its lease is void, and worker_id names the worker."""
    task_id = put(connection, "running")

    connection.execute(CANCEL, [task_id])

    assert ("cancelled", None, True, True) == read(
        connection, task_id, "status", "lease", "worker_id IS NOT NULL",
        "tableoid::regclass::text LIKE 'orchestrator.tasks_done_%%'",
    )  # fmt: skip


def test_a_new_priority_changes_the_order(connection: psycopg.Connection) -> None:
    """`position` changes at once."""
    first, second = put(connection, aging_us=10**15), put(connection, aging_us=10**15)

    connection.execute("UPDATE orchestrator.tasks SET priority = 75 WHERE id = %s", [second])

    order = connection.execute("SELECT id FROM orchestrator.tasks ORDER BY position").fetchall()
    assert [(second,), (first,)] == order


@pytest.mark.parametrize("priority", [101, -1, None])
@pytest.mark.parametrize("status", ["pending", "scheduled"])
def test_an_impossible_priority_is_refused(
    connection: psycopg.Connection, priority: int | None, status: str
) -> None:
    """By name, and not by a constraint that prints the row; also if the statement frees a due task."""
    task_id = put(connection, status, run_at="2020-01-01 UTC")

    for statement in (
        "UPDATE orchestrator.tasks SET priority = %s WHERE id = %s",
        "UPDATE orchestrator.tasks SET status = 'pending', priority = %s WHERE id = %s",
    ):
        diagnostic = refusal(connection, statement, [priority, task_id])
        assert "OR006" == diagnostic.sqlstate
        assert diagnostic.message_hint


def test_a_future_run_at_schedules_and_a_past_one_frees(connection: psycopg.Connection) -> None:
    """The status follows the time, in both directions."""
    task_id = put(connection)

    seen = []
    for run_at in ("2999-01-01 UTC", "2020-01-01 UTC"):
        connection.execute("UPDATE orchestrator.tasks SET run_at = %s WHERE id = %s", [run_at, task_id])
        seen.append(read(connection, task_id, "status"))

    assert ["scheduled", "pending"] == seen


@pytest.mark.parametrize("status", sorted(FINISHED | LEASED))
def test_a_new_time_for_a_task_that_no_longer_waits_is_refused(
    connection: psycopg.Connection, status: Status
) -> None:
    """The HINT has the intended statement."""
    diagnostic = refusal(
        connection, "UPDATE orchestrator.tasks SET run_at = now() WHERE id = %s", [put(connection, status)]
    )

    assert "OR001" == diagnostic.sqlstate
    assert "SET status = 'pending', run_at" in (diagnostic.message_hint or "")


@pytest.mark.parametrize("status", sorted(FINISHED))
@pytest.mark.parametrize(
    "change",
    [
        "type = 'other'", "queue = 'other'", "payload = '{}'", "priority = 75", "run_at = now()", "max_attempts = 9",
        "timeout = '1 s'", "idempotency_key = 'k'", "tags = '{a}'", "metadata = '{}'", "trace_context = '{}'",
    ],
)  # fmt: skip
def test_the_options_of_a_finished_task_do_not_change(
    connection: psycopg.Connection, status: Status, change: LiteralString
) -> None:
    """A change is refused by name. The statement in the HINT, a requeue with the change, works."""
    task_id = put(connection, status, payload=Jsonb({"a": 1}))
    before = read(connection, task_id, "*")
    column = change.partition(" ")[0]

    diagnostic = refusal(connection, CHANGE.format(change))

    assert (
        "OR001",
        f"task {task_id} is {status}; {column} cannot be changed any more",
    ) == (
        diagnostic.sqlstate,
        diagnostic.message_primary,
    )
    assert f"SET status = 'pending', {column} = … WHERE id = {task_id}" in (diagnostic.message_hint or "")
    assert before == read(connection, task_id, "*")
    connection.execute(CHANGE.format(f"status = 'pending', {change}").encode())
    assert "pending" == read(connection, task_id, "status")


@pytest.mark.parametrize("status", ["pending", "running", *sorted(FINISHED)])
def test_the_id_does_not_change(connection: psycopg.Connection, status: Status) -> None:
    """With an id ahead of the sequence, a later INSERT would fail. A requeue cannot bring one along, either."""
    task_id = put(connection, status)

    for change in ("id = id + 1", "id = id + 1, status = 'pending'"):
        diagnostic = refusal(connection, CHANGE.format(change))

        assert ("OR006", f"task {task_id}: id cannot be changed") == (
            diagnostic.sqlstate,
            diagnostic.message_primary,
        )
    connection.execute("UPDATE orchestrator.tasks SET id = id, status = 'pending'")


def test_one_finished_task_refuses_a_change_of_many(connection: psycopg.Connection) -> None:
    """All or nothing; the intended WHERE works."""
    waits, ended = put(connection), put(connection, "dead_letter")

    diagnostic = refusal(connection, "UPDATE orchestrator.tasks SET priority = 75, run_at = '2020-01-01 UTC'")

    assert f"task {ended} is dead_letter; priority, run_at cannot be changed any more" == (
        diagnostic.message_primary
    )
    assert f"SET status = 'pending', priority = …, run_at = … WHERE id = {ended}" in (
        diagnostic.message_hint or ""
    )
    connection.execute("UPDATE orchestrator.tasks SET priority = 75 WHERE finished_at IS NULL")
    assert 75 == read(connection, waits, "priority")


@pytest.mark.parametrize("run_at", ["infinity", "-infinity", "1969-12-31 UTC", "9000-01-02 UTC", None])
def test_an_impossible_time_is_refused(connection: psycopg.Connection, run_at: str | None) -> None:
    """Python could not load it."""
    diagnostic = refusal(
        connection, "UPDATE orchestrator.tasks SET run_at = %s WHERE id = %s", [run_at, put(connection)]
    )

    assert "OR006" == diagnostic.sqlstate


def test_a_delete_frees_the_key_and_is_recorded(connection: psycopg.Connection) -> None:
    """The same key makes a new task at once."""
    first = one(connection, "SELECT orchestrator.enqueue('mail', key => 'k')")

    connection.execute("DELETE FROM orchestrator.tasks WHERE id = %s", [first])

    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.idempotency_keys")
    assert first != one(connection, "SELECT orchestrator.enqueue('mail', key => 'k')")
    audit = connection.execute(
        "SELECT action, task_id, actor = session_user FROM orchestrator.audit"
    ).fetchall()
    assert [("delete", first, True)] == audit


def test_a_manual_change_is_recorded(connection: psycopg.Connection) -> None:
    """Action, actor, old and new status, and the reason if a function has one; once each."""
    task_id = put(connection)

    connection.execute("UPDATE orchestrator.tasks SET priority = 10 WHERE id = %s", [task_id])
    connection.execute("UPDATE orchestrator.tasks SET run_at = %s WHERE id = %s", [FUTURE, task_id])
    connection.execute("SELECT orchestrator.cancel(%s, 'not wanted')", [task_id])
    connection.execute("SELECT orchestrator.requeue(%s, 'wanted after all')", [task_id])

    expected = [
        ("priority", None, "pending", "pending", True),
        ("run_at", None, "pending", "scheduled", True),
        ("cancel", "not wanted", "scheduled", "cancelled", True),
        ("requeue", "wanted after all", "cancelled", "pending", True),
    ]
    assert (
        expected
        == connection.execute(
            "SELECT action, reason, details ->> 'from', details ->> 'to', actor = session_user"
            " FROM orchestrator.audit WHERE task_id = %s ORDER BY id",
            [task_id],
        ).fetchall()
    )


def test_a_reason_is_not_left_behind_for_the_next_statement(connection: psycopg.Connection) -> None:
    """Of two actions in one transaction, only the one with a reason has it."""
    first, second = put(connection), put(connection)

    with connection.transaction():
        connection.execute("SELECT orchestrator.cancel(%s, 'because')", [first])
        connection.execute(CANCEL, [second])

    reasons = connection.execute("SELECT reason FROM orchestrator.audit ORDER BY id").fetchall()
    assert [("because",), (None,)] == reasons


def test_only_idle_workers_are_notified(connection: psycopg.Connection) -> None:
    """An insert and a requeue notify once for each queue with an idle worker. There is no notification for busy
    queues, nor for a worker that died while it was idle."""
    sleeping_worker(connection, "mail", "reports")
    sleeping_worker(connection, "busy", seconds=-1)
    dead = sleeping_worker(connection, "left")
    connection.execute("UPDATE orchestrator.workers SET state = 'dead' WHERE id = %s", [dead])
    connection.execute("LISTEN orchestrator")

    connection.execute(
        "INSERT INTO orchestrator.tasks (type, queue)"
        " VALUES ('t', 'mail'), ('t', 'mail'), ('t', 'reports'), ('t', 'busy'), ('t', 'left')"
    )
    after_insert = rings(connection)
    for queue in ("mail", "left"):
        connection.execute(REQUEUE, [put(connection, "dead_letter", queue=queue)])

    # put() is an insert too, but of a dead letter: nobody has to wake for that.
    assert (["mail", "reports"], ["mail"]) == (after_insert, rings(connection))


def test_no_worker_is_woken_for_a_task_that_is_due_after_its_sleep(connection: psycopg.Connection) -> None:
    """A task for tomorrow wakes no worker that wakes by itself within the minute; a task due in ten seconds does."""
    sleeping_worker(connection, "default", seconds=60)
    connection.execute("LISTEN orchestrator")

    connection.execute("SELECT orchestrator.enqueue('t', delay => '1 day')")
    tomorrow = rings(connection)
    connection.execute("SELECT orchestrator.enqueue('t', delay => '10 seconds')")

    assert ([], ["default"]) == (tomorrow, rings(connection))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE orchestrator.tasks SET status = 'cancelled'",
        "UPDATE orchestrator.tasks SET status = 'pending'",
        "DELETE FROM orchestrator.tasks",
    ],
)
def test_a_worker_is_notified_at_once_when_it_loses_a_running_task(
    connection: psycopg.Connection, statement: LiteralString
) -> None:
    """Its worker, by its id, and no other worker for a waiting task. Otherwise the handler would run on until the
    next beat."""
    connection.execute("SELECT orchestrator.ensure_partition()")
    for status in ("running", "pending"):
        put(connection, status)
    connection.execute("LISTEN orchestrator_workers")

    connection.execute(statement)

    assert [str(WORKER)] == rings(connection)


def test_a_rolled_back_enqueue_wakes_no_worker(connection: psycopg.Connection) -> None:
    """Nor does a rolled-back savepoint, and neither leaves a task."""
    sleeping_worker(connection, "default")
    connection.execute("LISTEN orchestrator")

    with connection.transaction(force_rollback=True):
        insert(connection, type="t")
    with connection.transaction(), connection.transaction(force_rollback=True):
        insert(connection, type="t")

    assert ([], 0) == (rings(connection), one(connection, "SELECT count(*) FROM orchestrator.tasks"))
