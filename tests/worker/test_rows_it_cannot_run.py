"""Rows that the database accepts and this worker cannot run: payloads that do not fit, bodies that Python refuses,
types without a handler."""

import sys
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, events
from tests.worker.running import attempts, recorded, run_until_empty, status, task, value


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ("{}", "missing a required argument: 'user_id'"),
        ('{"user_id": 1, "colour": "red"}', "got an unexpected keyword argument 'colour'"),
        ('{"user_id": 1, "me": 2}', "'me' is the handler's Context and cannot come from the payload"),
    ],
)
@pytest.mark.parametrize("colour", ["async", "def"])
def test_a_payload_that_does_not_fit_is_a_dead_letter(
    app: Orchestrator, connection: psycopg.Connection, payload: str, reason: str, colour: str
) -> None:
    """At once, with that reason: a second try would not fit either. The handler is never called."""
    calls = []

    def greet(user_id: int, me: Context) -> None:
        calls.append(1)

    async def greet_on_loop(user_id: int, me: Context) -> None:
        calls.append(1)

    app.task(name="greet")(greet_on_loop if colour == "async" else greet)
    task_id = manually(connection, "greet", payload)
    run_until_empty(app)

    row = task(connection, task_id)
    assert ("dead_letter", 1, []) == (row.status, row.attempt, calls)
    assert f"the payload does not fit the handler greet: {reason}" == row.error["message"]
    assert [(1, "discarded")] == attempts(connection, task_id)


@pytest.mark.parametrize(
    "body",
    ["[1]", '{"n": 1e5000}', "[" * 2000 + "]" * 2000],
    ids=["no object", "a number Python refuses", "nested too deep"],
)
def test_an_unreadable_body_costs_one_task_and_not_the_batch(
    app: Orchestrator, connection: psycopg.Connection, body: str
) -> None:
    """A body that PostgreSQL stores and Python refuses is a dead letter with the reason; the other tasks complete."""

    @app.task(name="any")
    async def anything(context: Context, **payload: Any) -> None: ...

    ids = [manually(connection, "any", "{}") for _ in range(5)]
    # Past the door: the insert trigger would have refused it.
    connection.execute("UPDATE orchestrator.tasks SET payload = %s::jsonb WHERE id = %s", [body, ids[2]])
    run_until_empty(app)

    found = [status(connection, task_id) for task_id in ids]
    assert ["completed", "completed", "dead_letter", "completed", "completed"] == found
    message = "SELECT error ->> 'message' FROM orchestrator.tasks WHERE id = %s"
    assert "cannot be read back" in value(connection, message, ids[2])


def test_unreadable_metadata_fail_only_handlers_that_read_them(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """They are decoded when a handler reads them, and refused by name then."""

    @app.task(name="curious", max_attempts=1)
    async def curious(context: Context) -> None:
        dict(context.metadata)

    @app.task(name="other")
    async def other(context: Context) -> None: ...

    ids = [curious.using(metadata={"a": 1}).enqueue().id, curious.enqueue().id, other.enqueue().id]
    # Past the door: the insert trigger would have refused it.
    connection.execute("UPDATE orchestrator.tasks SET metadata = '7' WHERE id = ANY (%s)", [ids[1:]])
    run_until_empty(app)

    assert ["completed", "dead_letter", "completed"] == [status(connection, task_id) for task_id in ids]
    message = "SELECT error ->> 'message' FROM orchestrator.tasks WHERE id = %s"
    assert "metadata cannot be read back" in value(connection, message, ids[1])


def test_a_handler_is_found_in_the_registry_only(app: Orchestrator, connection: psycopg.Connection) -> None:
    """A type is a key: a type with the name of an importable function is as unknown as any other."""
    names = [
        "os.getcwd",
        "orchestrator.app.Orchestrator",
        "tests.worker.tasks.app",
        "builtins.exec",
        "__class__",
    ]

    @app.task(name="known")
    async def known() -> None: ...

    ids = [manually(connection, name, "{}") for name in names]
    before = set(sys.modules)
    with recorded(events.TaskStarted) as started:
        known.enqueue()
        run_until_empty(app)

    assert ["known"] == [event.type for event in started]
    assert ["UnknownType"] * len(names) == [task(connection, task_id).error["class"] for task_id in ids]
    assert not {"tests.worker.tasks"} & (set(sys.modules) - before)


def manually(connection: psycopg.Connection, kind: str, payload: str) -> int:
    row = connection.execute(
        "INSERT INTO orchestrator.tasks (type, payload) VALUES (%s, %s::jsonb) RETURNING id", [kind, payload]
    ).fetchone()
    assert row is not None
    return int(row[0])
