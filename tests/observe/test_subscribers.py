"""What users' subscribers may do, and that they cannot harm others."""

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
    """An application whose subscribers are removed afterwards."""
    application = Orchestrator(database_url, poll_seconds=1.0)
    yield application
    for subscriber, _ in list(application._subscriptions._ends):
        application.off(subscriber)
    application.close()


def test_a_decorated_function_gets_its_kinds_of_events(app: Orchestrator) -> None:
    """On a thread of its own, in order, and no other events."""
    received: list[Any] = []

    @app.on(events.LeafDropped, events.RowsExpired)
    def note(event: events.Event) -> None:
        received.append((event, threading.current_thread().name))

    for event in (GONE, events.RowsExpired("audit", 3), events.TimeoutsEnforced(1, 0)):
        events.emit(event)
    assert events.settle(PATIENCE_SECONDS)

    assert [GONE, events.RowsExpired("audit", 3)] == [event for event, _ in received]
    assert all("orchestrator subscriber" in name and "note" in name for _, name in received)


def test_a_base_stands_for_all_of_its_kinds(app: Orchestrator) -> None:
    """Event for everything, AttemptEnded for every end of an attempt; by a call, and until it is unsubscribed."""
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


def test_a_subscriber_that_raises_harms_no_task_and_is_reported(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """The task is completed, the subscriber is called again, and other subscribers get the event."""
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


def test_a_slow_subscriber_delays_neither_tasks_nor_other_subscribers(
    app: Orchestrator, connection: psycopg.Connection
) -> None:
    """Hundreds of tasks run while it sleeps in its first call, and a fast one gets all their events."""
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
    """It delivers the queued events for a limited time."""
    monkeypatch.setattr("orchestrator.observe.monitoring.SETTLE_SECONDS", 0.1)
    hangs, wake = threading.Event(), threading.Event()

    @app.on(events.WorkerStarted)
    def hang(_event: events.WorkerStarted) -> None:
        hangs.set()
        wake.wait(PATIENCE_SECONDS)

    run_until_empty(app)
    assert hangs.is_set()
    wake.set()


def test_events_that_a_full_queue_drops_are_counted_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, not for each event; also while the subscriber hangs."""
    busy, wake = threading.Event(), threading.Event()

    def subscriber(_event: events.Event) -> None:
        busy.set()
        assert wake.wait(PATIENCE_SECONDS)

    aside = Aside(subscriber, queue_max=2)
    with recorded(events.EventsDropped) as received:
        aside.take(GONE)
        assert busy.wait(PATIENCE_SECONDS)
        for _ in range(12):
            aside.take(GONE)
        assert [1] == [event.count for event in received]
        monkeypatch.setattr("orchestrator.events.subscriber.REPORT_EVERY_SECONDS", -1.0)
        wake.set()
        assert aside.settle(PATIENCE_SECONDS)
        aside.end()

    assert [1, 9] == [event.count for event in received]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # from Python 3.12 on: it has threads
def test_a_forked_process_delivers_its_own_events() -> None:
    """A server that forks after it was loaded has no thread in the child, and starts one."""
    received: list[events.Event] = []
    aside = Aside(received.append)
    aside.take(GONE)
    assert aside.settle(PATIENCE_SECONDS)
    pid = os.fork()
    if pid == 0:
        aside.take(GONE)
        os._exit(0 if aside.settle(PATIENCE_SECONDS) and len(received) == 2 else 1)
    aside.end()

    assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def coroutine(_event: events.Event) -> None:
    """The bus would not await it."""


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
def test_an_invalid_subscription_is_refused_at_once(kinds: list[Any], subscriber: Any, sentence: str) -> None:
    """With a sentence, at the subscription and not at the first task."""
    with pytest.raises(ConfigError, match=sentence):
        Orchestrator().on(*kinds, call=subscriber)


def test_only_a_subscriber_can_be_unsubscribed() -> None:
    """Another call is an error."""
    with pytest.raises(ConfigError, match="not subscribed"):
        Orchestrator().off(print)


def test_a_coroutine_that_is_returned_is_a_failure() -> None:
    """It is closed and reported, instead of a warning later."""
    aside = Aside(lambda event: coroutine(event))
    with recorded(events.SubscriberFailed) as received:
        aside.take(GONE)
        assert aside.settle(PATIENCE_SECONDS)
        aside.end()

    assert ["TypeError"] == [event.error_class for event in received]
