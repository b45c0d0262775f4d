"""Actions on one task, and everything that is known of it."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator import operate
from orchestrator.errors import OperationRefused, TaskExpired
from orchestrator.operate import Action
from orchestrator.task.status import Status
from tests.schema.rows import one, put, read


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (Action.REQUEUE, "dead_letter", "pending"),
        (Action.REQUEUE, "running", "pending"),
        (Action.CANCEL, "pending", "cancelled"),
        (Action.CANCEL, "running", "cancelled"),
        (Action.PRIORITY, "scheduled", "scheduled"),
    ],
)
def test_an_action_is_done_and_recorded(
    connection: psycopg.Connection, action: Action, before: str, after: str
) -> None:
    """With the role and the reason."""
    task_id = put(connection, before)

    operate.act(connection, action, task_id, priority=90, reason="asked for")

    assert (after, 90 if action is Action.PRIORITY else 50) == read(connection, task_id, "status", "priority")
    assert [(action.value, "asked for", True)] == connection.execute(
        "SELECT action, reason, actor = session_user FROM orchestrator.audit"
    ).fetchall()


def test_a_task_is_deleted_wherever_it_lies(connection: psycopg.Connection) -> None:
    """In every status; only its records stay."""
    for status in Status:
        operate.act(connection, Action.DELETE, put(connection, status), reason="a test")

    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.tasks")
    assert len(Status) == one(connection, "SELECT count(*) FROM orchestrator.audit WHERE reason = 'a test'")


@pytest.mark.parametrize("action", list(Action))
def test_an_unknown_task_is_an_error(connection: psycopg.Connection, action: Action) -> None:
    """A typing error must not look like a success."""
    with pytest.raises(TaskExpired, match="there is no task 4711"):
        operate.act(connection, action, 4711, priority=1)


@pytest.mark.parametrize(
    ("action", "status", "advice"),
    [
        (Action.CANCEL, "dead_letter", "DELETE it"),
        (Action.CANCEL, "completed", "set status = 'pending'"),
        (Action.PRIORITY, "completed", "requeue it"),
        (Action.PRIORITY, "running", "has its worker already"),
    ],
)
def test_an_invalid_action_is_refused_with_advice(
    connection: psycopg.Connection, action: Action, status: str, advice: str
) -> None:
    """Nothing changes."""
    task_id = put(connection, status)

    with pytest.raises(OperationRefused, match=advice):
        operate.act(connection, action, task_id, priority=90)

    assert (status, 50) == read(connection, task_id, "status", "priority")


def test_all_that_is_known_of_a_task_is_shown(connection: psycopg.Connection) -> None:
    """Its row, its timeline in order, and every failed attempt."""
    task_id = put(connection, "dead_letter", payload=Jsonb({"a": 1}), idempotency_key="k", tags=["t"])
    connection.execute(
        "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, error) VALUES"
        ' (%s, 1, \'failed\', \'q\', \'t\', \'{"class": "E", "message": "m", "traceback": "T"}\')',
        [task_id],
    )
    operate.act(connection, Action.REQUEUE, task_id, reason="why")

    detail = operate.detail(connection, task_id)

    assert detail.task is not None
    assert (task_id, "pending", '{"a": 1}', "k", ["t"]) == (
        detail.task.id, detail.task.status, detail.task.payload, detail.task.key, detail.task.tags,
    )  # fmt: skip
    assert {"created", "attempt failed"} == {each.event for each in detail.timeline[:-1]}
    assert "requeue" == detail.timeline[-1].event
    assert [("E", "m", "T")] == [(a.error_class, a.error_message, a.error_traceback) for a in detail.attempts]


def test_the_records_of_a_deleted_task_are_shown(connection: psycopg.Connection) -> None:
    """As long as they are kept."""
    task_id = put(connection)
    operate.act(connection, Action.DELETE, task_id, reason="not wanted")

    detail = operate.detail(connection, task_id)

    assert detail.task is None
    assert [("delete", "not wanted")] == [(each.event, each.detail) for each in detail.timeline]


def test_a_payload_that_prints_as_megabytes_is_not_read(connection: psycopg.Connection) -> None:
    """Its size is shown instead."""
    task_id = put(connection, payload=Jsonb({}))
    connection.execute(
        "UPDATE orchestrator.tasks_live SET payload = jsonb_build_object('n', array_fill(1e100000::numeric, ARRAY[20]))"
        " WHERE id = %s",
        [task_id],
    )

    task = operate.detail(connection, task_id).task

    assert task is not None
    assert (None, True) == (task.payload, task.payload_bytes > 2_000_000)
