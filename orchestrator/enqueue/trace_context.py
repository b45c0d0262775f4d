"""Store with a task the trace that it was enqueued in: the trace context goes into its envelope, as any option does.

Tasks that share an envelope share the marked one, so that a set stays as cheap as before. A context that the caller has
given stays.
"""

import dataclasses
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import msgspec

from orchestrator.enqueue.request import Envelope, Request


class Sending(Protocol):
    """The span of an enqueue. Its methods do not raise."""

    carrier: str | None

    def sent(self, task_id: int) -> None:
        """Note which task was enqueued."""

    def sent_many(self, count: int, queue: str | None) -> None:
        """Note how many tasks were enqueued, and the queue, if all have the same."""


class Tracing(Protocol):
    """Makes the spans."""

    def send(self, queue: str | None = None, kind: str | None = None) -> AbstractContextManager[Sending]:
        """Make the span of an enqueue, current in the block."""


class Destination(NamedTuple):
    """Where a task goes. Without a queue, its type in the database decides."""

    queue: str | None
    kind: str


def destination(envelope: Envelope) -> Destination:
    """Return where a task goes."""
    options: dict[str, Any] = msgspec.json.decode(envelope.alike)
    return Destination(options.get("queue"), envelope.type)


class Marker:
    """Marks requests with a trace context (JSON text), and notes their queues."""

    def __init__(self, carrier: str | None) -> None:
        self._carrier = carrier
        self._last: Envelope | None = None
        self._marked: Envelope | None = None
        self._queues: set[str | None] = set()

    def mark(self, request: Request) -> Request:
        """Return the request with the context."""
        envelope, body = request
        if self._marked is None or envelope is not self._last:
            self._last, self._marked = envelope, marked(envelope, self._carrier)
            self._queues.add(destination(envelope).queue)
        return self._marked, body

    @property
    def queue(self) -> str | None:
        """The queue of all marked requests, if it is the same for all."""
        return next(iter(self._queues)) if len(self._queues) == 1 else None


def marked(envelope: Envelope, carrier: str | None) -> Envelope:
    if carrier is None or envelope.is_traced:
        return envelope
    alike = f'{envelope.alike[:-1]}, "trace_context": {carrier}}}'
    return dataclasses.replace(envelope, alike=alike, columns=None, is_traced=True)
