"""Spans, by OpenTelemetry's conventions for messaging: `send` where tasks are enqueued, `process` for each attempt.

    send mail     PRODUCER   the row keeps its context (W3C traceparent and tracestate)
    process mail  CONSUMER   one for each attempt; a child of that context, and linked to it

The conventions require a link. They allow a parent for one message processed outside of any other span
(messaging-spans, "Message creation context as parent"). That is the case here: one attempt is one task, and the loop of
a worker has no span. As a child, an attempt and its retries appear in the trace of the request that enqueued the task.
A set is sent in one span, not one for each item: its tasks are children of that span.

Baggage is not stored: it may be private, and many roles read a row. Any producer may have written the context in a row;
a value that is not a trace context begins a new trace. Nothing here raises: after an error tracing is switched off.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ParamSpec, Self

import msgspec
from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Fault
from orchestrator.version import __version__

SYSTEM = "orchestrator"
NAMES = ("traceparent", "tracestate")
HEADER_CHARACTERS_MAX = 1000
PROPAGATOR = TraceContextTextMapPropagator()

P = ParamSpec("P")


def harmless(act: Callable[P, None]) -> Callable[P, None]:
    """Let a function fail without an effect outside tracing."""

    @functools.wraps(act)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            act(*args, **kwargs)
        except Exception as error:
            SPANS.give_up(error)

    return guarded


class Open:
    """A span, current in a block, ended by `end`."""

    __slots__ = ("_span", "_token", "carrier")

    def __init__(self) -> None:
        self._span: Span = INVALID_SPAN
        self._token: Any = None
        self.carrier: str | None = None
        """The span's context for the tasks that it enqueues, as JSON text."""

    @harmless
    def start(self, operation: str, kind: SpanKind, known: Mapping[str, Any], origin: Context | None) -> None:
        """Start the span in this context, or in the current one."""
        attributes = {
            "messaging.system": SYSTEM,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            **{name: value for name, value in known.items() if value is not None},
        }
        parent = None if origin is None else trace.get_current_span(origin).get_span_context()
        self._span = SPANS.tracer().start_span(
            named(operation, known.get("messaging.destination.name")),
            context=origin,
            kind=kind,
            attributes=attributes,
            links=[Link(parent)] if parent is not None and parent.is_valid else None,
        )
        carrier: dict[str, str] = {}
        PROPAGATOR.inject(carrier, context=trace.set_span_in_context(self._span, Context()))
        self.carrier = msgspec.json.encode(carrier).decode() if carrier else None

    def __enter__(self) -> Self:
        self._token = context.attach(trace.set_span_in_context(self._span))
        return self

    def __exit__(self, *_: object) -> None:
        context.detach(self._token)

    @harmless
    def failed(self, fault: Fault) -> None:
        """Record the fault, with the exception if there was one. record_exception would format its text again."""
        if fault.traceback:
            self._span.add_event(
                "exception",
                {
                    "exception.type": fault.class_name,
                    "exception.message": fault.message,
                    "exception.stacktrace": fault.traceback,
                },
            )
        self._span.set_attribute("error.type", fault.class_name)
        self._span.set_status(StatusCode.ERROR, fault.message)

    @harmless
    def end(self, outcome: str) -> None:
        """End the span of an attempt, with the name of its outcome."""
        self._span.set_attribute("messaging.orchestrator.outcome", outcome)
        self._span.end()

    @harmless
    def sent(self, task_id: int) -> None:
        """Record the id of the enqueued task."""
        self._span.set_attribute("messaging.message.id", str(task_id))

    @harmless
    def sent_many(self, count: int, queue: str | None) -> None:
        """Record how many tasks were enqueued, and the queue if all are in one."""
        self._span.set_attribute("messaging.batch.message_count", count)
        if queue is not None:
            self._span.set_attribute("messaging.destination.name", queue)
            self._span.update_name(named("send", queue))

    @harmless
    def close(self, error: BaseException | None) -> None:
        """End the span of an enqueue, which may have failed."""
        if error is not None:
            self._span.record_exception(error)
            self._span.set_attribute("error.type", type(error).__qualname__)
            self._span.set_status(StatusCode.ERROR, str(error))
        self._span.end()


class Spans:
    """Makes spans until the tracer fails."""

    def __init__(self) -> None:
        self.works = True
        self._provider: trace.TracerProvider | None = None
        self._tracer: trace.Tracer = trace.NoOpTracer()

    def tracer(self) -> trace.Tracer:
        """Return the tracer of the current provider. It is kept, since the SDK makes a new one at each call."""
        provider = trace.get_tracer_provider()
        if provider is not self._provider:
            self._tracer, self._provider = provider.get_tracer("orchestrator", __version__), provider
        return self._tracer

    def give_up(self, error: Exception) -> None:
        """Switch tracing off in this process: a tracer that fails for each task only costs time."""
        if self.works:
            self.works = False
            sys.stderr.write(
                f"orchestrator: tracing has failed and is off: {type(error).__name__}: {error}\n"
            )

    @contextmanager
    def send(self, queue: str | None = None, kind: str | None = None) -> Iterator[Open]:
        """Make the span of an enqueue, current in the block."""
        span = Open()
        known = {"messaging.destination.name": queue, "messaging.orchestrator.task.type": kind}
        span.start("send", SpanKind.PRODUCER, known, None)
        try:
            with span:
                yield span
        except BaseException as error:
            span.close(error)
            raise
        span.close(None)

    def process(self, task: Claimed) -> Open:
        """Make the span of an attempt."""
        span = Open()
        known = {
            "messaging.destination.name": task.queue,
            "messaging.message.id": str(task.id),
            "messaging.orchestrator.task.type": task.type,
            "messaging.orchestrator.task.attempt": task.attempt,
        }
        span.start("process", SpanKind.CONSUMER, known, origin_of(task.trace_context))
        return span

    @contextmanager
    def continued(self, trace_context: str | None) -> Iterator[None]:
        """Continue the trace of this context within the block."""
        token = context.attach(origin_of(trace_context))
        try:
            yield
        finally:
            context.detach(token)


SPANS = Spans()


def origin_of(trace_context: str | None) -> Context:
    """Return the context that a row holds, or an empty one if its text is invalid: any producer may have written it.
    The context in which the worker was started is never used: it belongs to no task's trace."""
    try:
        headers = msgspec.json.decode(trace_context or "null")
    except (ValueError, RecursionError):
        return Context()
    if not isinstance(headers, dict):
        return Context()
    carrier = {
        name: headers[name]
        for name in NAMES
        if isinstance(headers.get(name), str) and len(headers[name]) <= HEADER_CHARACTERS_MAX
    }
    try:
        return PROPAGATOR.extract(carrier, context=Context())
    except Exception:  # the text is untrusted; an error of the propagator must not cost a task
        return Context()


def named(operation: str, queue: Any) -> str:
    return f"{operation} {queue}" if queue else operation
