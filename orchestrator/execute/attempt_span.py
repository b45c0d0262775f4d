"""An attempt in a span, if the worker traces. Without tracing this code does not run and costs nothing.

The span is current while the handler runs, on the loop and in a thread. A child process gets it in the task's trace
context. The span ends when the attempt's end is known.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from orchestrator.execute.attempt import Attempt
from orchestrator.execute.context import Services
from orchestrator.execute.executors import Executors
from orchestrator.execute.registry import Handler
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import DeadLettered, End, Failed, Fault, Released
from orchestrator.task.tally import word

# Makes the attempt of a task, with its handler, under a worker id, taken at this time.
Make = Callable[[Claimed, Handler, UUID, float], Attempt]


class Span(Protocol):
    """A span that is open while a handler runs. Its methods never raise."""

    carrier: str | None

    def __enter__(self) -> Self:
        """Make it the current span."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the span before it."""

    def failed(self, fault: Fault) -> None:
        """Record what went wrong."""

    def end(self, outcome: str) -> None:
        """End the span, with the name of the attempt's outcome."""


class Spans(Protocol):
    """Makes spans. The worker chooses the implementation once, at its start."""

    def process(self, task: Claimed) -> Span:
        """Make the span of an attempt."""


class Traced(Attempt, eq=False, kw_only=True):
    """An attempt that runs in a span."""

    spans: Spans
    span: Span | None = None  # set when it runs

    async def run(self) -> End:
        """Run the handler in its span."""
        self.span = span = self.spans.process(self.task)
        # A child process, the context's log and the events use this trace context.
        self.task = self.task._replace(trace_context=span.carrier or self.task.trace_context)
        end: End = Released()
        with span:
            try:
                end = await Attempt.run(self)
                return end
            finally:
                if self.context is None:
                    self._close(end)

    async def settled(self, end: End) -> End:
        """Return the attempt's end, after a possible completion by the handler itself."""
        try:
            end = await Attempt.settled(self, end)
            return end
        finally:
            self._close(end)

    def _close(self, end: End) -> None:
        assert self.span is not None  # nosec B101 # noqa: S101 - run() has set it
        if isinstance(end, Failed | DeadLettered):
            self.span.failed(end.fault)
        self.span.end(word(end))


def maker(executors: Executors, services: Services, spans: Spans | None) -> Make:
    """Return how a worker makes its attempts. Chosen once, so a worker without tracing pays nothing for it."""

    def make(task: Claimed, handler: Handler, worker_id: UUID, taken_at: float) -> Attempt:
        return Attempt(
            task,
            taken_at=taken_at,
            worker_id=worker_id,
            handler=handler,
            executors=executors,
            services=services,
        )

    if spans is None:
        return make

    def make_traced(task: Claimed, handler: Handler, worker_id: UUID, taken_at: float) -> Attempt:
        return Traced(
            task,
            taken_at=taken_at,
            worker_id=worker_id,
            handler=handler,
            executors=executors,
            services=services,
            spans=spans,
        )

    return make_traced
