"""What users' subscribers may do, and what they cannot do to others."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import orchestrator
from orchestrator import ConfigError, Orchestrator, events
from orchestrator.events.subscriber import Aside
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.running import recorded, run_until_empty, statuses

GONE = events.LeafDropped("tasks_done_20260101")


@pytest.fixture
def app(database_url: str) -> Iterator[Orchestrator]:
    """An application, its subscribers taken off afterwards."""
    application = Orchestrator(database_url, poll_seconds=1.0)
    yield application
    for subscriber, _ in list(application._subscriptions._ends):
        application.off(subscriber)
    application.close()


def test_a_decorated_function_is_told_what_it_asked_for(app: Orchestrator) -> None:
    """On a thread of its own, in order, and of nothing else."""
    told: list[Any] = []

    @app.on(events.LeafDropped, events.RowsExpired)
    def note(event: events.Event) -> None:
        told.append((event, threading.current_thread().name))

    for event in (GONE, events.RowsExpired("audit", 3), events.TimeoutsEnforced(1, 0)):
        events.emit(event)
    assert events.settle(PATIENCE_SECONDS)

    assert [GONE, events.RowsExpired("audit", 3)] == [event for event, _ in told]
    assert all("orchestrator subscriber" in name and "note" in name for _, name in told)


def test_a_base_stands_for_all_of_its_kinds(app: Orchestrator) -> None:
    """Event for everything, AttemptEnded for every end of an attempt; by call, and until it is called off."""
    ends: list[events.Event] = []
    everything: list[events.Event] = []
    app.on(events.AttemptEnded, call=ends.append)
    app.on(events.Event, call=everything.append)
    completed = events.TaskCompleted(1, "t", "q", 1)
    events.emit(completed)
    events.emit(GONE)
    assert events.settle(PATIENCE_SECONDS)
    app.off(everything.append)
    events.emit(completed)
    assert events.settle(PATIENCE_SECONDS)

    assert [completed, completed] == ends
    assert events.kinds(events.AttemptEnded) != [events.AttemptEnded]
    assert [completed, GONE] == [event for event in everything if event in (completed, GONE)]


def test_who_raises_hurts_no_task_and_is_told_of(app: Orchestrator, connection: psycopg.Connection) -> None:
    """The task is completed, the subscriber is called again, other subscribers are told."""
    calls: list[str] = []

    @app.task(name="work")
    async def work() -> None: ...

    @app.on(events.TaskCompleted, events.SubscriberFailed)
    def fail(event: events.Event) -> None:
        calls.append(type(event).__name__)
        raise SystemExit("no")

    work.enqueue()
    work.enqueue()
    with recorded(events.SubscriberFailed) as failures:
        run_until_empty(app)
        assert events.settle(PATIENCE_SECONDS)

    assert {"completed": 2} == statuses(connection)
    assert ["SubscriberFailed"] * 2 + ["TaskCompleted"] * 2 == sorted(calls), "and not of itself for ever"
    assert {("TaskCompleted", "SystemExit", "no")} == {(f.kind, f.error_class, f.message) for f in failures}


def test_who_is_slow_holds_up_neither_tasks_nor_others(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Hundreds of tasks run while it sleeps in its first call, and a quick one is told of all of them."""
    asleep, wake = threading.Event(), threading.Event()
    quick: list[events.Event] = []

    @app.task(name="work")
    async def work() -> None: ...

    @app.on(events.TaskCompleted)
    def doze(_event: events.TaskCompleted) -> None:
        asleep.set()
        assert wake.wait(PATIENCE_SECONDS)

    app.on(events.TaskCompleted, call=quick.append)
    app.enqueue_many([work.call() for _ in range(300)])
    finished = threading.Thread(target=run_until_empty, args=(app,))
    finished.start()
    assert asleep.wait(PATIENCE_SECONDS)
    # The worker waits for it at its end, but for no task.
    eventually(lambda: statuses(connection) == {"completed": 300}, "all of them have run")
    wake.set()
    finished.join(PATIENCE_SECONDS)

    assert 300 == len(quick)


def test_a_worker_ends_although_a_subscriber_hangs(
    app: Orchestrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is queued is handed over, for as long as it has patience."""
    monkeypatch.setattr("orchestrator.worker.monitoring.SETTLE_SECONDS", 0.1)
    hangs, wake = threading.Event(), threading.Event()

    @app.on(events.WorkerStarted)
    def hang(_event: events.WorkerStarted) -> None:
        hangs.set()
        wake.wait(PATIENCE_SECONDS)

    run_until_empty(app)
    assert hangs.is_set()
    wake.set()


def test_what_a_full_queue_drops_is_counted_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in a while, and not for each; also while the subscriber hangs."""
    busy, wake = threading.Event(), threading.Event()

    def subscriber(_event: events.Event) -> None:
        busy.set()
        assert wake.wait(PATIENCE_SECONDS)

    aside = Aside(subscriber, queue_max=2)
    with recorded(events.EventsDropped) as told:
        aside.take(GONE)
        assert busy.wait(PATIENCE_SECONDS)
        for _ in range(12):
            aside.take(GONE)
        assert [1] == [event.count for event in told]
        monkeypatch.setattr("orchestrator.events.subscriber.TELL_EVERY_SECONDS", -1.0)
        wake.set()
        assert aside.settle(PATIENCE_SECONDS)
        aside.end()

    assert [1, 9] == [event.count for event in told]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on: it has threads
def test_a_forked_process_tells_its_own() -> None:
    """A server that forks after it was loaded has no thread there, and gets one."""
    told: list[events.Event] = []
    aside = Aside(told.append)
    aside.take(GONE)
    assert aside.settle(PATIENCE_SECONDS)
    pid = os.fork()
    if pid == 0:
        aside.take(GONE)
        os._exit(0 if aside.settle(PATIENCE_SECONDS) and len(told) == 2 else 1)
    aside.end()

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def coroutine(_event: events.Event) -> None:
    """Nobody would await it."""


class Caller:
    """Called like a function, and a coroutine all the same."""

    async def __call__(self, _event: events.Event) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("kinds", "subscriber", "sentence"),
    [
        ([], print, "name one or more"),
        ([orchestrator.TaskFailed], print, r"did you mean orchestrator\.events\.TaskFailed\?"),
        ([ValueError], print, "ValueError is no event"),
        (["TaskFailed"], print, "is no event"),
        ([events.TaskFailed], coroutine, "coroutine function"),
        ([events.TaskFailed], Caller(), "coroutine function"),
        ([events.TaskFailed], "print", "cannot be called"),
    ],
)
def test_what_cannot_be_subscribed_is_refused_at_once(
    kinds: list[Any], subscriber: Any, sentence: str
) -> None:
    """With a sentence, where it is written, and not when the first task fails."""
    with pytest.raises(ConfigError, match=sentence):
        Orchestrator().on(*kinds, call=subscriber)


def test_who_never_subscribed_cannot_be_taken_off() -> None:
    """A slip is said."""
    with pytest.raises(ConfigError, match="not subscribed"):
        Orchestrator().off(print)


def test_a_coroutine_that_is_returned_is_a_failure() -> None:
    """It is closed, and said, instead of a warning at some later time."""
    aside = Aside(lambda event: coroutine(event))
    with recorded(events.SubscriberFailed) as told:
        aside.take(GONE)
        assert aside.settle(PATIENCE_SECONDS)
        aside.end()

    assert ["TypeError"] == [event.error_class for event in told]
