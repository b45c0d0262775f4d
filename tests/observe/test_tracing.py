"""A task is part of the trace in which it was enqueued: on the row, in the handler, through retries and processes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from orchestrator import (
    Cancel,
    Context,
    Discard,
    EnqueueRefused,
    Orchestrator,
    Retry,
    Snooze,
    events,
    testing,
)
from orchestrator.execute import Attempt
from orchestrator.observe import spans as spans_module
from orchestrator.task.claimed import unknown
from tests.observe import traced_shop
from tests.worker.running import AT_ONCE, recorded, run_until_empty, task, until, working

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Traces:
    """The recorded spans, by name, in the order of their ends."""

    def __init__(self, exporter: InMemorySpanExporter, tracer: trace.Tracer) -> None:
        self._exporter = exporter
        self.tracer = tracer

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self._exporter.get_finished_spans() if span.name == name]

    def only(self, name: str) -> Any:
        (span,) = self.named(name)
        return span


def set_up(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> None:
    """Set this provider for a test; OpenTelemetry allows only one per process."""
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(spans_module.SPANS, "works", True)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traces]:
    """A tracer that keeps its spans."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    set_up(monkeypatch, provider)
    yield Traces(exporter, provider.get_tracer("test"))
    provider.shutdown()


@pytest.fixture
def app_settings() -> dict[str, float]:
    """Quick to notice things."""
    return {"poll_seconds": 1.0, "heartbeat_seconds": 0.5, "grace_seconds": 10.0}


def context_of(connection: psycopg.Connection, task_id: int) -> tuple[int, int]:
    """Return the trace and the span in a row."""
    _, traced, span, _ = task(connection, task_id).trace_context["traceparent"].split("-")
    return int(traced, 16), int(span, 16)


def ids(span: Any) -> tuple[int, int]:
    return span.context.trace_id, span.context.span_id


def test_a_task_goes_on_in_the_trace_it_was_enqueued_in(
    app: Orchestrator, connection: psycopg.Connection, traces: Traces
) -> None:
    """Request, send, process, and the handler's own span: one trace, each the child of the one before."""

    @app.task(name="shop.welcome", queue="mail")
    def welcome(user_id: int) -> None:
        with traces.tracer.start_as_current_span("work"):
            pass

    with traces.tracer.start_as_current_span("request"):
        handle = welcome.enqueue(user_id=1)
    run_until_empty(app)

    request, send, process, work = map(traces.only, ("request", "send mail", "process mail", "work"))
    assert [ids(request)[0]] * 3 == [ids(span)[0] for span in (send, process, work)]
    assert (ids(send), ids(send)) == (context_of(connection, handle.id), ids(process.links[0]))
    assert [ids(request)[1], ids(send)[1], ids(process)[1]] == [
        span.parent.span_id for span in (send, process, work)
    ]


def test_spans_follow_the_conventions(app: Orchestrator, traces: Traces) -> None:
    """Kinds, and the attributes of messaging."""

    @app.task(name="shop.welcome", queue="mail")
    async def welcome() -> None:
        pass

    handle = welcome.enqueue()
    run_until_empty(app)

    send, process = traces.only("send mail"), traces.only("process mail")
    common = {
        "messaging.system": "orchestrator",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(handle.id),
        "messaging.orchestrator.task.type": "shop.welcome",
    }
    assert (SpanKind.PRODUCER, SpanKind.CONSUMER) == (send.kind, process.kind)
    assert {
        **common,
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
    } == send.attributes
    assert {
        **common,
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.orchestrator.task.attempt": 1,
        "messaging.orchestrator.outcome": "completed",
    } == process.attributes
    assert StatusCode.UNSET == process.status.status_code


def test_every_way_to_enqueue_keeps_the_context(
    app: Orchestrator, connection: psycopg.Connection, database_url: str, traces: Traces
) -> None:
    """One, many, mixed, by name, with a key, on the caller's connection; in threads and coroutines."""

    @app.task(name="shop.note", queue="mail")
    def note(n: int) -> None:
        pass

    async def coroutines() -> list[int]:
        found = [await note.aenqueue(n=1), *await note.aenqueue_many([{"n": 2}, {"n": 3}])]
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as mine:
            found.append(await note.using(mine).aenqueue(n=4))
            found += await app.aenqueue_many([note.call(n=5), app.call("elsewhere", {})], using=mine)
        await app.aclose()
        return [handle.id for handle in found]

    engine = create_engine(database_url.replace("postgresql://", "postgresql+psycopg://"))
    with traces.tracer.start_as_current_span("request") as request, Session(engine) as session:
        handles = [
            note.enqueue(n=1),
            note.using(key="a", tags=["b"]).enqueue(n=2),
            app.enqueue("elsewhere", {}),
        ]
        handles += [*note.enqueue_many([{"n": 3}, {"n": 4}]), note.using(session).enqueue(n=5)]
        session.commit()
        found = [*(handle.id for handle in handles), *asyncio.run(coroutines())]
    engine.dispose()

    assert 12 == len(found)
    assert {request.get_span_context().trace_id} == {context_of(connection, one)[0] for one in found}
    assert {"send", "send mail", "request"} == {
        name for name in ("send", "send mail", "request") if traces.named(name)
    }


def test_a_set_is_sent_in_one_span(app: Orchestrator, connection: psycopg.Connection, traces: Traces) -> None:
    """Its tasks are the children of that span, also those of a later chunk."""

    @app.task(name="shop.note", queue="mail")
    def note(n: int) -> None:
        pass

    note.enqueue_many({"n": n} for n in range(1500))

    send = traces.only("send mail")
    assert 1500 == send.attributes["messaging.batch.message_count"]
    assert [(1500,)] == connection.execute(
        "SELECT count(*) FROM orchestrator.tasks WHERE trace_context ->> 'traceparent' LIKE %s",
        [f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-%"],
    ).fetchall()


def test_a_context_that_was_given_stays(
    app: Orchestrator, connection: psycopg.Connection, traces: Traces
) -> None:
    """From Python and from SQL, for a producer that forwards a trace."""

    @app.task(name="shop.note")
    def note() -> None:
        pass

    given = {"traceparent": PARENT, "tracestate": "shop=1"}
    handle = note.using(trace_context=given).enqueue()
    connection.execute(
        "SELECT orchestrator.enqueue('shop.note', trace_context => %s)", [json.dumps({"traceparent": PARENT})]
    )
    connection.execute(
        "INSERT INTO orchestrator.tasks (type, trace_context) VALUES ('shop.note', %s)",
        [json.dumps({"traceparent": PARENT})],
    )
    run_until_empty(app)

    assert given == task(connection, handle.id).trace_context
    processed = traces.named("process default")
    assert [PARENT.split("-")[1]] * 3 == [
        f"{span.context.trace_id:032x}" for span in processed if span.context
    ]
    assert ["1", None, None] == [span.context.trace_state.get("shop") for span in processed if span.context]


def test_retries_share_the_trace_and_failures_are_recorded(app: Orchestrator, traces: Traces) -> None:
    """A span for each attempt, with the raised exception."""

    @app.task(name="shop.fail", max_attempts=2, backoff=AT_ONCE)
    def fail() -> None:
        raise ValueError("broken")

    fail.enqueue()
    run_until_empty(app)

    first, second = traces.named("process default")
    send = traces.only("send default")
    assert [ids(send)[1]] * 2 == [span.parent.span_id for span in (first, second) if span.parent]
    assert [(1, "failed"), (2, "dead_lettered")] == [
        (attributes["messaging.orchestrator.task.attempt"], attributes["messaging.orchestrator.outcome"])
        for attributes in (dict(first.attributes or {}), dict(second.attributes or {}))
    ]
    assert (StatusCode.ERROR, "broken") == (second.status.status_code, second.status.description)
    assert "ValueError" == (second.attributes or {})["error.type"]
    (event,) = second.events
    assert "exception" == event.name
    assert "fail" in str((event.attributes or {})["exception.stacktrace"])


def snooze() -> None:
    raise Snooze(3600)


def cancel() -> None:
    raise Cancel("no longer")


def retry() -> None:
    raise Retry(3600, "not yet")


def discard() -> None:
    raise Discard("never")


@pytest.mark.parametrize(
    ("ends", "outcome", "status"),
    [
        (snooze, "snoozed", StatusCode.UNSET),
        (cancel, "cancelled", StatusCode.UNSET),
        (retry, "failed", StatusCode.ERROR),
        (discard, "dead_lettered", StatusCode.ERROR),
    ],
)
async def test_each_end_has_its_word(
    app: Orchestrator, traces: Traces, ends: Callable[[], None], outcome: str, status: StatusCode
) -> None:
    """A delay is no error."""
    app.task(name="shop.end", max_attempts=2)(ends).enqueue()

    async with working(app):
        await until(lambda: traces.named("process default"), "the attempt is traced")

    span = traces.only("process default")
    assert (outcome, status) == (span.attributes["messaging.orchestrator.outcome"], span.status.status_code)
    assert () == span.events


def test_a_timeout_is_an_error(app: Orchestrator, traces: Traces) -> None:
    """Of its own type."""

    @app.task(name="shop.sleep", timeout=0.1, max_attempts=1)
    async def sleep() -> None:
        await asyncio.sleep(600)

    sleep.enqueue()
    run_until_empty(app)

    span = traces.only("process default")
    assert ("Timeout", StatusCode.ERROR) == (span.attributes["error.type"], span.status.status_code)


def test_an_attempt_that_completes_its_task_itself_ends_its_span(app: Orchestrator, traces: Traces) -> None:
    """When the commit is known. Its log lines and events name the trace."""
    logged: list[Any] = []

    @app.task(name="shop.own")
    async def own(context: Context) -> None:
        logged.append(context.log)
        async with context.transaction():
            pass

    own.enqueue()
    with recorded(events.TaskCompleted) as emitted:
        run_until_empty(app)

    span = traces.only("process default")
    traced = f"{span.context.trace_id:032x}"
    assert "completed" == span.attributes["messaging.orchestrator.outcome"]
    assert [traced] == [event.trace_id for event in emitted]
    assert traced == logged[0]._context["trace_id"]


def test_a_handler_that_is_given_back_ends_its_span(app: Orchestrator, traces: Traces) -> None:
    """At shutdown, unfinished."""

    @app.task(name="shop.hang")
    async def hang() -> None:
        begun.set()
        await asyncio.sleep(600)

    async def run() -> None:
        worker = app.worker(grace_seconds=0.0)
        job = asyncio.create_task(worker.run())
        await asyncio.wait_for(begun.wait(), 30)
        worker.stop()
        await asyncio.wait_for(job, 30)

    begun = asyncio.Event()
    hang.enqueue()
    asyncio.run(run())

    assert "released" == traces.only("process default").attributes["messaging.orchestrator.outcome"]


@pytest.mark.parametrize("traced_there", [True, False])
def test_a_process_of_its_own_goes_on_in_the_trace(
    database_url: str, traces: Traces, monkeypatch: pytest.MonkeyPatch, *, traced_there: bool
) -> None:
    """The attempt's span is current in the child if OpenTelemetry is set up there; if not, the handler runs all the
    same."""
    if traced_there:
        monkeypatch.setenv("SHOP_TRACES", "1")
    with testing.use_database(traced_shop.app, database_url):
        handle = traced_shop.child.enqueue()
        run_until_empty(traced_shop.app)
        result = handle.result()

    traced, span = ids(traces.only("process default")) if traced_there else (0, 0)
    assert {"trace": f"{traced:032x}", "span": f"{span:016x}"} == result


HOSTILE = [
    {"traceparent": "garbage"},
    {"traceparent": 7, "tracestate": ["a"]},
    {"traceparent": PARENT, "tracestate": "=" * 600 + "\x1b[2J"},
    {"traceparent": PARENT + "x" * 100_000},
    {"traceparent": {"deep": {"er": [None]}}},
    {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
    {"baggage": "secret=1"},
    {},
]


@pytest.mark.parametrize("written", [*HOSTILE, None, [1], "text", 7], ids=lambda written: str(written)[:30])
def test_a_manually_written_trace_context_costs_no_task(
    app: Orchestrator, connection: psycopg.Connection, traces: Traces, written: object
) -> None:
    """It is a valid trace context, or it is ignored."""

    @app.task(name="shop.note")
    def note() -> None:
        pass

    handle = note.enqueue()
    connection.execute(
        "UPDATE orchestrator.tasks_live SET trace_context = %s WHERE id = %s",
        [json.dumps(written), handle.id],
    )
    run_until_empty(app)

    assert "completed" == handle.status()
    (process,) = traces.named("process default")
    has_parent = isinstance(written, dict) and written.get("traceparent") == PARENT
    assert has_parent is (process.parent is not None)


def test_an_unsampled_trace_stays_unsampled_in_the_worker(
    app: Orchestrator, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row says that the trace is not sampled, so that the worker's sampler can follow it."""
    provider, exporter = TracerProvider(sampler=ALWAYS_OFF), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    set_up(monkeypatch, provider)

    @app.task(name="shop.note")
    def note() -> None:
        pass

    handle = note.enqueue()
    run_until_empty(app)

    flags = int(task(connection, handle.id).trace_context["traceparent"][-2:], 16)
    assert 0 == flags & trace.TraceFlags.SAMPLED
    assert ((), "completed") == (exporter.get_finished_spans(), handle.status())


def test_a_refusal_is_an_error_of_the_send(app: Orchestrator, traces: Traces) -> None:
    """With its type."""

    @app.task(name="shop.note")
    def note(text: str) -> None:
        pass

    with pytest.raises(EnqueueRefused):
        note.using(queue="x" * 10, key="k" * 501).enqueue(text="a")

    span = traces.only("send xxxxxxxxxx")
    assert ("EnqueueRefused", StatusCode.ERROR) == (span.attributes["error.type"], span.status.status_code)


class Broken(TracerProvider):
    """Fails at each call."""

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        raise OSError("no collector")


def test_a_tracer_that_fails_costs_no_task(
    app: Orchestrator,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The failure is reported once, and the tracer is not called again."""
    set_up(monkeypatch, Broken())

    @app.task(name="shop.note")
    def note() -> None:
        pass

    handles = [note.enqueue(), *note.enqueue_many([{}, {}])]
    run_until_empty(app)

    assert ["completed"] * 3 == [handle.status() for handle in handles]
    assert 1 == capsys.readouterr().err.count("tracing has failed and is off: OSError: no collector")


def test_a_worker_that_does_not_trace_runs_plain_attempts(app: Orchestrator) -> None:
    """So it has no cost, even if OpenTelemetry's API is loaded."""
    worker = app.worker()

    @app.task(name="note")
    async def note() -> None: ...

    handler = app.registry.find("note")
    assert handler is not None
    claimed = unknown(id=1, lease=1, queue="default", type="note", attempt=1)

    assert type(worker._slots.attempt(claimed, handler, uuid4(), 0.0)) is Attempt
