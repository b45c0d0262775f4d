"""Enqueueing: options, keys, defaults; and each refusal is a sentence."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from orchestrator import EnqueueRefused, Orchestrator, OrchestratorError, PayloadRefused, SchemaError
from tests.worker.running import task, value


@pytest.fixture
def note(app: Orchestrator) -> Any:
    """A task that accepts any value, with options of its own."""

    @app.task(name="note", queue="notes", priority="high", max_attempts=7, timeout=11)
    def note(**anything: object) -> None: ...

    return note


def test_the_decorators_options_apply_before_any_worker_started(
    note: Any, connection: psycopg.Connection
) -> None:
    """There is no row in types yet, but the producer knows the options."""
    row = task(connection, note.enqueue().id)

    assert ("note", "notes", 75, 7, timedelta(seconds=11)) == (
        row.type, row.queue, row.priority, row.max_attempts, row.timeout,
    )  # fmt: skip
    assert (row.status, row.attempt, row.payload) == ("pending", 0, {})


def test_every_option_beats_the_decorator(note: Any, connection: psycopg.Connection) -> None:
    """And each is written to its column."""
    at = datetime(2031, 2, 3, 4, 5, 6, 789000, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    options = {
        "queue": "others", "priority": 3, "run_at": at, "max_attempts": 2, "timeout": timedelta(minutes=1),
        "tags": ("a", "b"), "metadata": {"c": [1]}, "key": "k", "key_window": timedelta(days=3),
    }  # fmt: skip
    row = task(connection, note.using(**options).enqueue(d=1).id)

    assert ("others", 3, at, 2, timedelta(minutes=1)) == (
        row.queue, row.priority, row.run_at, row.max_attempts, row.timeout,
    )  # fmt: skip
    assert (["a", "b"], {"c": [1]}, "k", "scheduled", {"d": 1}) == (
        row.tags, row.metadata, row.idempotency_key, row.status, row.payload,
    )  # fmt: skip
    window = value(connection, "SELECT expires_at - now() FROM orchestrator.idempotency_keys")
    assert timedelta(days=2.9) < window <= timedelta(days=3)


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)], ids=repr)
def test_a_delay_counts_from_the_databases_clock(
    note: Any, connection: psycopg.Connection, delay: float | timedelta
) -> None:
    """Seconds or a timedelta."""
    row = task(connection, note.using(delay=delay).enqueue().id)

    assert ("scheduled", 90.0) == (row.status, (row.run_at - row.created_at).total_seconds())


@pytest.mark.parametrize(("name", "number"), [("low", 25), ("normal", 50), ("high", 75), ("critical", 100)])
def test_priorities_have_names(note: Any, connection: psycopg.Connection, name: str, number: int) -> None:
    """Four of them."""
    assert number == task(connection, note.using(priority=name).enqueue().id).priority


def test_a_sender_can_be_used_again(note: Any, connection: psycopg.Connection) -> None:
    """It is made once and used several times; the task itself does not change."""
    urgent = note.using(priority="critical")

    ids = [urgent.enqueue(n=n).id for n in range(3)] + [note.enqueue().id]

    assert [100, 100, 100, 75] == [task(connection, task_id).priority for task_id in ids]


def test_a_key_is_taken_once(note: Any, app: Orchestrator, connection: psycopg.Connection) -> None:
    """The second caller gets the first one's task, marked as not created. Another type's key is another key."""
    other = app.task(name="other")(lambda: None)

    first, second = note.using(key="k").enqueue(n=1), note.using(key="k").enqueue(n=2)
    third, fourth = other.using(key="k").enqueue(), note.using(key="l").enqueue()

    assert (first.id, True, False) == (second.id, first.created, second.created)
    assert (True, True) == (third.created, fourth.created)
    assert {"n": 1} == task(connection, first.id).payload
    assert 3 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"priority": 101}, "the priority is 101; it must lie between 0 and 100"),
        ({"priority": -1}, "the priority is -1; it must lie between 0 and 100"),
        ({"priority": 1.5}, "the priority is 1.5; it must lie between 0 and 100"),
        ({"priority": "urgent"}, "the priority is 'urgent'; it must be 0 to 100, or one of low, normal, high"),
        ({"run_at": datetime(2031, 1, 1)}, "run_at has no time zone; give it one"),
        ({"run_at": "tomorrow"}, "run_at is of type str; it must be a datetime with a time zone"),
        ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "it must lie between the years 1970 and 9000"),
        ({"run_at": datetime(1, 1, 1, tzinfo=UTC)}, "it must lie between the years 1970 and 9000"),
        ({"run_at": datetime(2031, 1, 1, tzinfo=UTC), "delay": 1}, "run_at and delay were both given. Give one"),
        ({"delay": -1}, "delay is -1; it must lie between 0 and 100 years"),
        ({"delay": float("inf")}, "delay is inf"),
        ({"delay": "1 hour"}, "delay is '1 hour'; it must be a timedelta"),
        ({"delay": 1e300}, "100 years"),
        ({"timeout": -1}, "timeout is -1"),
        ({"max_attempts": 0}, "max_attempts is 0; it must lie between 1 and 32,767"),
        ({"max_attempts": 40_000}, "max_attempts is 40000"),
        ({"max_attempts": "3"}, "max_attempts is '3'"),
        ({"queue": ""}, "queue must have 1 to 200 characters, not 0"),
        ({"queue": "q" * 201}, "queue must have 1 to 200 characters, not 201"),
        ({"queue": 7}, "queue is of type int; it must be text"),
        ({"queue": "a\nb"}, "the queue holds a control character"),
        ({"key": ""}, "the idempotency key is empty"),
        ({"key": "k" * 501}, "the idempotency key has 501 characters; at most 500 are allowed"),
        ({"key": 7}, "key is of type int; it must be text"),
        ({"key": "a\x00"}, "key holds a NUL or a lone surrogate, which PostgreSQL cannot store"),
        ({"key": "a\ud800"}, "key holds a NUL or a lone surrogate"),
        ({"key": "k", "key_window": 0}, "key_window is 00:00:00; it must be longer than 0"),
        ({"tags": "urgent"}, "tags are of type str; they must be a list of texts"),
        ({"tags": 7}, "tags are of type int; they must be a list of texts"),
        ({"tags": ["a", 7]}, "tags[1] is of type int; it must be text"),
        ({"tags": ["\x00"]}, "tags[0] holds a NUL"),
        ({"metadata": [1]}, "metadata must be a JSON object, not list"),
        ({"metadata": {"a": float("nan")}}, "metadata.a is nan, which JSON cannot hold"),
    ],
    ids=repr,
)  # fmt: skip
async def test_an_invalid_option_is_refused_with_a_sentence(
    note: Any, connection: psycopg.Connection, options: dict[str, Any], sentence: str
) -> None:
    """In sync and async calls, and nothing is enqueued."""
    with pytest.raises(EnqueueRefused) as refused:
        note.using(**options).enqueue()

    with pytest.raises(EnqueueRefused) as refused_on_loop:
        await note.using(**options).aenqueue()
    await note._producer.aclose()

    assert str(refused.value) == str(refused_on_loop.value)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


@pytest.mark.parametrize(
    ("payload", "path", "sentence"),
    [
        ({"items": [1, {"name": {1, 2}}]}, "payload.items[1].name", "is a set, which JSON cannot hold"),
        ({"a": "x\x00"}, "payload.a", "contains \\u0000"),
        ({"a": {"b": float("inf")}}, "payload.a.b", "is inf"),
        ({"a": datetime(2031, 1, 1)}, "payload.a", "is a datetime without a UTC offset"),
        ({"a": "x" * 300_000}, "payload", "takes 300,009 bytes of JSON text, more than the 262,144 allowed"),
    ],
    ids=["set", "NUL", "infinity", "naive", "size"],
)
def test_an_invalid_payload_is_refused_with_its_path(
    note: Any, payload: dict[str, Any], path: str, sentence: str
) -> None:
    """It is never cut, and never shown."""
    with pytest.raises(PayloadRefused) as refused:
        note.enqueue(**payload)

    assert path == refused.value.path
    assert str(refused.value).startswith(f"{path} {sentence}")
    assert "xxx" not in str(refused.value)


def test_the_databases_limit_of_size_applies_too(note: Any, connection: psycopg.Connection) -> None:
    """If its limit is lower, its refusal is the same exception, without the payload."""
    connection.execute("UPDATE orchestrator.settings SET payload_bytes_max = 200")

    with pytest.raises(PayloadRefused) as refused:
        note.enqueue(a="x" * 300)

    assert "the payload is 309 bytes of text; at most 200 are allowed" == str(refused.value)
    assert "OR002" == refused.value.sqlstate


def test_a_draining_queue_takes_no_new_tasks(note: Any, connection: psycopg.Connection) -> None:
    """The sentence says how to open it again."""
    connection.execute("INSERT INTO orchestrator.queues (name, state) VALUES ('notes', 'draining')")

    with pytest.raises(EnqueueRefused) as refused:
        note.enqueue()

    assert "OR003" == refused.value.sqlstate
    assert (
        "queue 'notes' is draining and takes no new tasks. SELECT orchestrator.resume_queue('notes')"
        in str(refused.value)
    )


def test_an_unknown_option_is_a_type_error(note: Any) -> None:
    """The error lists the known ones."""
    with pytest.raises(
        TypeError, match="there is no option prio; the options are queue, priority, run_at, delay, key"
    ):
        note.using(prio=1)


@pytest.mark.parametrize("colour", ["def", "async"])
def test_without_a_schema_the_error_names_the_command(empty_database_url: str, colour: str) -> None:
    """At the first enqueue after a forgotten migration."""
    app = Orchestrator(empty_database_url)
    declared = app.task(name="note")(lambda: None)

    async def on_loop() -> None:
        try:
            await declared.aenqueue()
        finally:
            await app.aclose()

    with pytest.raises(SchemaError, match="run `orchestrator migrate`") as refused:
        declared.enqueue() if colour == "def" else asyncio.run(on_loop())
    app.close()

    assert isinstance(refused.value, OrchestratorError)
