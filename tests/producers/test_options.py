"""Options: their precedence, their values, and that they never collide with the handler's arguments."""

import asyncio
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from orchestrator import Context, Orchestrator, Retry, Snooze, events
from orchestrator.errors import ConfigError, EnqueueRefused
from orchestrator.task.backoff import Backoff
from tests.clock import Clock
from tests.worker.running import recorded, run_until_empty, task, until, value, working


@pytest.mark.parametrize("colour", ["def", "async"])
def test_a_handler_may_have_parameters_of_any_name(colour: str, app: Orchestrator) -> None:
    """Also the names of our own methods and options."""
    seen: list[dict[str, Any]] = []

    @app.task(name="greedy")
    def greedy(
        priority: int, queue: str, self: str, self_: str, options: list[int], args: str, name: str, function: str,
        held: str, using: str, key: str, delay: str, timeout: float, metadata: dict[str, int], tags: list[str],
        run_at: str, handler: str, arguments: str, connection: str, items: str, kwargs: str,
        cls: str, task: str, payload: str, max_attempts: int, key_window: str, context: str, value: str, request: str,
        **others: int,
    ) -> None:  # fmt: skip
        seen.append(dict(locals()))

    given: dict[str, Any] = {
        "priority": 1, "queue": "q", "self": "s", "self_": "s_", "options": [1], "args": "a", "name": "n",
        "function": "f", "held": "h", "using": "u", "key": "k", "delay": "d", "timeout": 0.5, "metadata": {"m": 1},
        "tags": ["t"], "run_at": "r", "handler": "h", "arguments": "a", "connection": "c", "items": "i",
        "kwargs": "k", "type": "t", "id": 7, "cls": "c", "task": "t", "payload": "p", "max_attempts": 9,
        "key_window": "w", "context": "x", "value": "v", "request": "r", "other": 1, "others": 2,
    }  # fmt: skip

    async def main() -> None:
        await greedy.using(priority="low").aenqueue(**given)
        await greedy.aenqueue_many([given, greedy.call(**given)])
        await app.aclose()

    if colour == "async":
        asyncio.run(main())
    else:
        greedy.using(priority="low").enqueue(**given)
        greedy.enqueue_many([given, greedy.call(**given)])
    run_until_empty(app)

    arrived = [{**call, **call["others"]} for call in seen]
    assert 3 == len(arrived)
    assert all(given.items() <= {**call, "others": 2}.items() for call in arrived)


def test_using_beats_the_decorator_beats_the_type_beats_the_queue(
    app: Orchestrator, connection: psycopg.Connection, database_url: str
) -> None:
    """And the built-in default comes last."""
    connection.execute(
        "INSERT INTO orchestrator.types (name, queue, priority, max_attempts, timeout)"
        " VALUES ('decorated', 'of-type', 10, 10, '10s'), ('plain', 'of-queue', NULL, 20, NULL)"
    )
    connection.execute(
        "INSERT INTO orchestrator.queues (name, priority, max_attempts, timeout)"
        " VALUES ('of-queue', 30, 30, '30s'), ('of-decorator', 31, 31, '31s')"
    )
    decorated = app.task(name="decorated", queue="of-decorator", priority=40, max_attempts=40)(lambda: None)
    elsewhere = Orchestrator(database_url)

    handles = [
        decorated.using(queue="of-using", priority=50, max_attempts=50, timeout=50).enqueue(),
        decorated.enqueue(),
        elsewhere.enqueue("decorated", {}),
        elsewhere.enqueue("plain", {}),
        elsewhere.enqueue("unheard of", {}, queue="of-queue"),
        elsewhere.enqueue("unheard of", {}),
    ]
    elsewhere.close()

    found = []
    for handle in handles:
        row = task(connection, handle.id)
        found.append((row.queue, row.priority, row.max_attempts, row.timeout.total_seconds()))
    assert [
        ("of-using", 50, 50, 50),
        ("of-decorator", 40, 40, 10),
        ("of-type", 10, 10, 10),
        ("of-queue", 30, 20, 30),
        ("of-queue", 30, 30, 30),
        ("default", 50, 4, 300),
    ] == found


def test_a_task_of_ours_may_be_enqueued_by_name(app: Orchestrator, connection: psycopg.Connection) -> None:
    """It is checked and sent to its own queue, as with its function."""

    @app.task(name="ours", queue="mail")
    def ours(number: int) -> None: ...

    assert "mail" == task(connection, app.enqueue("ours", {"number": 1}).id).queue
    with pytest.raises(TypeError, match="ours: got an unexpected keyword argument 'nummer'"):
        app.enqueue("ours", {"number": 1, "nummer": 1})


DURATIONS = [timedelta(minutes=90), 5_400, 5_400.0, "1h30m", "90m", "5400s"]


@pytest.mark.parametrize("written", DURATIONS, ids=repr)
def test_durations_are_taken_as_people_write_them(
    written: Any, app: Orchestrator, connection: psycopg.Connection
) -> None:
    """In the options, and in the decorator."""
    patient = app.task(name="patient", timeout=written)(lambda: None)
    clock = Clock(connection)

    handle = patient.using(delay=written, key="k", key_window=written).enqueue()

    row = task(connection, handle.id)
    assert (5_400, clock.now + timedelta(minutes=90)) == (row.timeout.total_seconds(), row.run_at)
    expires = value(connection, "SELECT expires_at FROM orchestrator.idempotency_keys")
    assert clock.now + timedelta(minutes=90) == expires
    assert "0:00:00.250000" == str(task(connection, patient.using(timeout="250ms").enqueue().id).timeout)


@pytest.mark.parametrize("option", ["delay", "key_window", "timeout"])
def test_an_invalid_duration_is_refused_by_the_options_name(
    option: str, note: Any, app: Orchestrator
) -> None:
    """The error lists the valid forms. In the decorator it is an error of the program."""
    sentence = rf"{option} is '5 minutes'; it must be a timedelta, a number of seconds, or text such as "

    with pytest.raises(EnqueueRefused, match=sentence):
        note.using(**{option: "5 minutes"}).enqueue()
    with pytest.raises(ConfigError, match="timeout is '5 minutes'"):
        app.task(timeout="5 minutes")(lambda: None)


def test_retry_and_snooze_accept_durations_too(app: Orchestrator) -> None:
    """An invalid one fails the attempt, with its sentence."""

    @app.task(name="again", backoff=Backoff(base_seconds=300, jitter=0))
    def again(how: str, after: str) -> None:
        raise Snooze(after) if how == "snooze" else Retry(after)

    async def main() -> None:
        async with working(app, concurrency=1):
            await until(lambda: len(seen) == 3, "each was tried once")

    again.enqueue_many(
        [{"how": how, "after": a} for how, a in (("snooze", "1h"), ("retry", "30m"), ("retry", "soon"))]
    )
    with recorded(events.TaskFailed, events.TaskSnoozed) as seen:
        asyncio.run(main())

    snoozed, retried, failed = seen
    assert (3_600.0, 1_800.0, 300.0) == (
        snoozed.after_seconds, retried.retry_after_seconds, failed.retry_after_seconds,
    )  # fmt: skip
    assert "ValueError" == failed.error_class
    assert failed.message.startswith(
        "after is 'soon'; it must be a timedelta, a number of seconds, or text such as"
    )


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("priorty", "priority"),
        ("queu", "queue"),
        ("delayed", "delay"),
        ("max_attempt", "max_attempts"),
        ("tag", "tags"),
    ],
)
def test_a_misspelt_option_gets_a_suggestion(option: str, meant: str, note: Any, app: Orchestrator) -> None:
    """Before anything is sent, at every place for options."""
    with pytest.raises(TypeError, match=rf"there is no option {option}; did you mean {meant}\?"):
        note.using(**{option: 1})
    with pytest.raises(TypeError, match=rf"did you mean {meant}\?"):
        app.enqueue("note", {}, **{option: 1})


def test_an_unknown_option_gets_the_list(note: Any) -> None:
    """There are ten."""
    with pytest.raises(
        TypeError, match="there is no option eta; the options are queue, priority, run_at, delay, key,"
    ):
        note.using(eta=5)


def test_a_key_is_taken_for_its_window(note: Any, connection: psycopg.Connection) -> None:
    """After it the same key makes another task, also in a set."""
    clock = Clock(connection)
    first = note.using(key="k", key_window="10m").enqueue()
    clock.advance(minutes=9)
    during = note.using(key="k").enqueue()
    clock.advance(minutes=2)
    after = note.using(key="k", key_window="1d").enqueue_many([{"number": 1}])[0]

    assert (first.id, False) == (during.id, during.created)
    assert (True, True) == (after.created, after.id != first.id)


def test_a_handler_finds_tags_and_metadata_in_its_context(app: Orchestrator) -> None:
    """Not in the payload."""
    seen: list[Any] = []

    @app.task(name="tagged")
    def tagged(context: Context) -> None:
        seen.append((context.tags, dict(context.metadata)))

    tagged.using(tags=["new", "EU"], metadata={"request": 7, "deep": {"a": [1]}}).enqueue()
    tagged.enqueue_many([{}, tagged.using(tags=("one",)).call()])
    run_until_empty(app)

    # Threads run them side by side: nothing says which of the three is noted first.
    seen.sort()
    assert [((), {}), (("new", "EU"), {"request": 7, "deep": {"a": [1]}}), (("one",), {})] == seen
