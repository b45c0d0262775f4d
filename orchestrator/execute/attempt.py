"""One attempt, as a pipeline: decode the payload, call the handler, judge its value or exception.

    decoded → called → judged → last attempt? then a dead letter

The worker may end an attempt: at its timeout, at a shutdown, or when the lease is lost. It calls `stop` first, with the
end that the attempt then gets, and cancels the handler after that. So a handler that cancels itself is not mistaken for
one that the worker has stopped.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, cast

from orchestrator import events, forks
from orchestrator.errors import (
    Cancel,
    Discard,
    ExecutorCrashed,
    HandlerSignal,
    PayloadRefused,
    Retry,
    Snooze,
)
from orchestrator.execute import context, error_text
from orchestrator.execute.children import Written
from orchestrator.execute.context import NOWHERE, Context, Services
from orchestrator.execute.executors import Executors
from orchestrator.execute.registry import Handler
from orchestrator.task import backoff, duration, payload, result_fast
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import (
    RELEASED,
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Lost,
    Outcome,
    Recorded,
    Released,
    Snoozed,
)

# The end of nearly every attempt: made once.
NO_RESULT = Completed(None)
# Their texts exist already, or are made of plain values: they need no other thread.
OURS = frozenset({error_text.RaisedInChild, error_text.Unfit, ExecutorCrashed})
SIGNALS = frozenset({Retry, Snooze, Cancel, Discard})
PLAIN = frozenset({str, int, float, timedelta, type(None)})

T = TypeVar("T")


class Attempt(Outcome, eq=False, kw_only=True, gc=False):
    """One execution of a task, from the claim to its outcome. A worker may run a hundred thousand a second, so an
    attempt makes nothing that only some need: no timer, no asyncio task, no context. A struct, since a dataclass takes
    five times as long to make."""

    handler: Handler
    executors: Executors
    services: Services = NOWHERE
    in_slot: asyncio.Task[None] | None = None
    ending: End | None = None  # the worker has stopped it: how it ends
    mark_at: float = 0.0  # not marked `running` before this time; infinite: it is marked
    context: Context | None = None

    @forks.calls_handlers
    async def run(self) -> End:
        """Run the handler, and return how the attempt ended."""
        try:
            arguments = self._arguments()
        except (PayloadRefused, TypeError) as error:
            return DeadLettered(error_text.of_unfit(self.handler.type, error), "discarded")
        except BaseException as error:
            # Binding builds values of the annotated types, so it runs the user's constructors.
            return await self._raised(error)
        try:
            if self.handler.is_async:
                value = await self.handler.function(**arguments)
            else:
                value = await self.executors.call(self.handler, arguments, self.context, self.task)
            if value is None and self.context is None:
                return NO_RESULT
            return exhausted_if_last(await self._returned(value), self.task)
        except asyncio.CancelledError as error:
            self._say_if_abandoned()
            # Not stopped: the handler cancelled itself, or one of its own cancellations escaped.
            return self.ending or await self._raised(error)
        except HandlerSignal as signal:
            return await self._raised(signal)
        except BaseException as error:
            # It failed because it was stopped. At a timeout that is certain only if the handler can see in its context
            # that its time is over.
            if self.ending is not None and (self.may_look or isinstance(self.ending, Released | Lost)):
                return self.ending
            # Also SystemExit and KeyboardInterrupt: a handler must not end the worker, nor pass for a success.
            return await self._raised(error)

    async def settled(self, end: End) -> End:
        """Return the attempt's end. A completion by the handler's own transaction has precedence over `end`."""
        assert self.context is not None  # nosec B101 # noqa: S101 - asked only of an attempt that has one
        # Ends: a COMMIT on its way is answered, or its wait runs out. The handler has ended, so a cancellation is
        # ignored.
        while True:
            with suppress(asyncio.CancelledError):
                if not await self.context.ended():
                    return end
                self._say_ignored(end)
                return Recorded()

    @property
    def is_completing(self) -> bool:
        """Whether the handler has completed the task itself, or may have by now."""
        return self.context is not None and self.context.is_completing

    def stop(self, ending: End) -> None:
        """The worker ends the attempt so: tell the handler through its context. A cancellation that follows is the
        worker's, not the handler's own. The first such end counts, unless the lease is lost after it."""
        if self.ending is None or isinstance(ending, Lost):
            self.ending = ending
        if self.context is not None:
            self.context.cancel()

    def overdue_seconds(self, now: float) -> float:
        """Return how long the attempt has run beyond its timeout. Never positive without a timeout."""
        seconds = self.task.timeout_seconds
        return now - self.begun_at - seconds if seconds and self.begun_at is not None else 0.0

    @property
    def slot(self) -> asyncio.Task[None]:
        """The asyncio task that runs it."""
        assert self.in_slot is not None  # nosec B101 # noqa: S101 - asked only of an attempt that runs
        return self.in_slot

    @property
    def may_look(self) -> bool:
        """Whether the handler runs in a thread and can see in its context that its time is over."""
        return self.handler.executor == "thread" and self.context is not None

    def timed_out(self) -> End:
        """Return the end of an attempt that did not end in time."""
        reason = f"no result within {self.task.timeout_seconds:g} s"
        failed = Failed(Fault("Timeout", reason), "timeout", self._backoff_seconds())
        return exhausted_if_last(failed, self.task)

    def broke(self, error: BaseException) -> End:
        """Return the end of an attempt that raised this, as a failure."""
        return exhausted_if_last(self._failed(error), self.task)

    def _arguments(self) -> dict[str, Any]:
        if self.handler.executor == "process":
            return {}  # the child builds them and makes its own context
        arguments = payload.decode(self.task.payload)
        if self.handler.takes_as_is(arguments):
            return arguments
        if self.handler.context_name is not None:
            self.context = context.of(self.task, self.services, self.begun_at)
        # A `def` handler's thread builds them.
        return self.handler.bind(arguments, self.context) if self.handler.is_async else arguments

    async def _returned(self, value: object) -> End:
        if self.ending is not None and self.context is not None and self.context.cancel_was_seen:
            # The handler looked at `cancelled` and returned. Whether its work was complete is unknown.
            return self.ending
        if value is None:
            return NO_RESULT if self.context is None else Completed(self.context.result_text)
        if type(value) is Written:
            return Completed(value.text)
        text = result_fast.encode_fast(value, bytes_max=self.services.result_bytes_max)
        if text is None:
            text = await self.apart(encode_result, value, self.services.result_bytes_max)
        return Completed(text)

    async def apart(self, function: Callable[..., T], *arguments: Any, seconds: float | None = None) -> T:
        """Run code of a value that the handler raised or returned, off the loop: it may be any code."""
        return cast("T", await self.executors.apart(function, *arguments, seconds=seconds))

    async def _raised(self, error: BaseException) -> End:
        """Return the end of an attempt that raised this."""
        if is_ours(error):
            return self._judged(error)
        try:
            return await self.apart(self._judged, error, seconds=error_text.TEXT_SECONDS)
        except TimeoutError:
            failed = Failed(error_text.without_text(error), "failed", self._backoff_seconds())
            return exhausted_if_last(failed, self.task)
        except asyncio.CancelledError:
            return self.ending or RELEASED

    def _judged(self, error: BaseException) -> End:
        # Not isinstance: that asks the exception for its __class__.
        if issubclass(type(error), HandlerSignal):
            return exhausted_if_last(self._signalled(cast("HandlerSignal", error)), self.task)
        return self.broke(error)

    def _say_ignored(self, end: End) -> None:
        match end:
            case Completed(result) if self.context is not None and result == self.context.result_text:
                return
            case Completed():
                what = "it returned a value; context.result() sets one inside the transaction"
            case Failed(_, "timeout") | DeadLettered(_, "timeout"):
                what = "it did not end in time"
            case Failed(error_text) | DeadLettered(error_text):
                what = f"it raised {error_text.class_name}: {error_text.message}"
            case Released() | Lost():
                return  # stopped by the worker, not asked for by the handler
            case _:
                what = f"it asked to be {type(end).__name__.lower()}"
        events.emit(events.OutcomeIgnored(self.task.id, self.task.type, self.task.queue, what))

    def _say_if_abandoned(self) -> None:
        """Emit that a cancelled handler's thread goes on."""
        job = asyncio.current_task()
        if self.handler.executor == "thread" and job is not None and job.cancelling():
            events.emit(events.HandlerAbandoned(self.task.id, self.task.type))

    def _failed(self, error: BaseException) -> Failed:
        return Failed(error_text.of(error), "failed", self._backoff_seconds())

    def _signalled(self, signal: HandlerSignal) -> End:
        try:
            return self._meant(signal)
        except ValueError as error:  # not a valid delay: the handler's mistake, so the attempt fails
            return self._failed(error)

    def _meant(self, signal: HandlerSignal) -> End:
        match signal:
            case error_text.Unfit(fault=unfit):
                return DeadLettered(unfit, "discarded")
            case Snooze(after=after):
                return Snoozed(duration.seconds("after", after))
            case Cancel(reason=reason):
                return Cancelled(error_text.message(reason))
            case Discard(reason=reason):
                return DeadLettered(Fault("Discard", error_text.message(reason)), "discarded")
            case Retry(after=after, reason=reason):
                wait = self._backoff_seconds() if after is None else duration.seconds("after", after)
                return Failed(Fault("Retry", error_text.message(reason)), "failed", wait)
            case _:
                return self._failed(signal)

    def _backoff_seconds(self) -> float:
        return backoff.delay_seconds(self.handler.backoff, self.task.attempt, random.random)


def is_ours(error: BaseException) -> bool:
    """Tell whether an exception's text can be made by our code and Python's alone."""
    kind = type(error)
    return kind in OURS or (kind in SIGNALS and all(type(value) in PLAIN for value in vars(error).values()))


def encode_result(value: object, bytes_max: int) -> str:
    return payload.encode_result(value, bytes_max=bytes_max)


def exhausted_if_last(end: End, task: Claimed) -> End:
    """Turn a failure into a dead letter when no attempt is left."""
    if isinstance(end, Failed) and task.attempt >= task.max_attempts:
        return DeadLettered(end.fault, end.kind)
    return end
