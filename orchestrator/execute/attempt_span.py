"""An attempt with a span around it, where a worker traces. Where it does not there is none of this, at no cost.

The span is current while the handler runs, on the loop and in a thread; a process of the handler's own is told of it in
the task's trace context. It ends when it is known how the attempt ended.
"""

from types import TracebackType
from typing import Protocol, Self

from orchestrator.execute.attempt import Attempt
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import DeadLettered, End, Failed, Fault, Released
from orchestrator.task.tally import word


class Span(Protocol):
    """What is open while a handler runs; nothing of it raises."""

    carrier: str | None

    def __enter__(self) -> Self:
        """Be the current one."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Be it no more."""

    def failed(self, fault: Fault) -> None:
        """Say what went wrong."""

    def end(self, outcome: str) -> None:
        """End, with a word for what became of the attempt."""


class Spans(Protocol):
    """Makes them; the conductor chooses who, once, when a worker starts."""

    def process(self, task: Claimed) -> Span:
        """Make the span of an attempt."""


class Traced(Attempt, eq=False, kw_only=True):
    """Runs as any attempt, and is seen."""

    spans: Spans
    span: Span | None = None  # from when it runs

    async def run(self) -> End:
        """Run the handler in its span."""
        self.span = span = self.spans.process(self.task)
        # What a child process, the context's log and the events go by.
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
        """Return what the attempt's end is when the handler may have completed its task itself."""
        try:
            end = await Attempt.settled(self, end)
            return end
        finally:
            self._close(end)

    def _close(self, end: End) -> None:
        assert self.span is not None  # nosec B101 # noqa: S101 - what ends has run
        if isinstance(end, Failed | DeadLettered):
            self.span.failed(end.fault)
        self.span.end(word(end))
