"""One attempt, as a pipeline: open the payload, call the handler, judge what came of it.

    opened → called → judged → last attempt? then a dead letter

Only a cancellation by the worker (at shutdown, or when the lease is gone) leaves as an exception; it calls the
attempt off first, so that a handler which cancels itself is not taken for one. A timeout is a cancellation, too, which
`expire` has announced.
"""

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec

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
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Fault,
    Outcome,
    Recorded,
    Released,
    Snoozed,
)

# What nearly every attempt ends with: made once.
NO_RESULT = Completed(None)
# Their texts are there already, or are made of plain values: no need for another thread.
OURS = frozenset({error_text.Told, error_text.Unfit, ExecutorCrashed})
SIGNALS = frozenset({Retry, Snooze, Cancel, Discard})
PLAIN = frozenset({str, int, float, timedelta, type(None)})

T = TypeVar("T")


class Attempt(msgspec.Struct, eq=False):
    """A task in the hands of its handler. Of the hundred thousand a second that a worker may run, none makes what only
    some need: no timer, no asyncio task, no context. A struct: a dataclass takes five times as long to make."""

    task: Claimed
    handler: Handler
    worker_id: UUID
    executors: Executors
    result_bytes_max: int
    is_marked: bool = False  # `running` in the database
    services: Services = NOWHERE
    taken_at: float = msgspec.field(default_factory=time.monotonic)  # when the task had come into our hands
    begun_at: float = msgspec.field(default_factory=time.monotonic)
    mark_at: float = 0.0  # not before
    context: Context | None = None
    called_off: bool = False
    expired: bool = False

    @forks.calls_handlers
    async def run(self) -> End:
        """Run the handler to its end, and return which end it was. Raises only CancelledError, and only when
        the attempt was called off."""
        try:
            arguments = self._arguments()
        except (PayloadRefused, TypeError) as error:
            return DeadLettered(error_text.of_unfit(self.handler.type, error), "discarded")
        except BaseException as error:
            # Binding builds what the annotations name, and so runs the user's constructors.
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
            if self.called_off:
                raise
            # The handler cancelled itself, or let a cancellation of its own escape.
            return self.timed_out() if self.expired else await self._raised(error)
        except HandlerSignal as signal:
            return await self._raised(signal)
        except BaseException as error:
            if self.called_off:
                # It failed because it was called off: that costs it nothing.
                raise asyncio.CancelledError from error
            if self.expired and self.may_look:
                # It was told that its time is over, and this is how it ended.
                return self.timed_out()
            # SystemExit and KeyboardInterrupt too: a handler must not end the worker, nor pass for a success.
            return await self._raised(error)

    def outcome(self, end: End) -> Outcome:
        """Return what is to be written of it: it has ended now."""
        return Outcome(self.task, end, self.begun_at, time.monotonic(), self.taken_at)

    async def settled(self, end: End) -> End:
        """Return what the attempt's end is when the handler may have completed its task itself: that comes first."""
        assert self.context is not None  # nosec B101 # noqa: S101 - asked only of an attempt that has one
        # Ends: what is on its way is answered, or given up. A cancellation has nobody left to reach.
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

    def call_off(self) -> None:
        """Tell the handler that its outcome no longer counts. A cancellation which now follows is the worker's, and
        not one the handler made itself."""
        self.called_off = True
        if self.context is not None:
            self.context.cancel()

    def overdue_seconds(self, now: float) -> float:
        """Return for how long it has gone on beyond its timeout; never positive without one."""
        seconds = self.task.timeout_seconds
        return now - self.begun_at - seconds if seconds else 0.0

    @property
    def may_look(self) -> bool:
        """Whether the handler is in a thread, and can see that its time is over."""
        return self.handler.executor == "thread" and self.context is not None

    def expire(self) -> None:
        """Its time is over: a cancellation which now follows means that."""
        self.expired = True
        if self.context is not None:
            self.context.cancel()

    def timed_out(self) -> End:
        """Return the end of an attempt that did not end in time."""
        reason = f"no result within {self.task.timeout_seconds:g} s"
        failed = Failed(Fault("Timeout", reason), "timeout", self._backoff_seconds())
        return exhausted_if_last(failed, self.task)

    def broke(self, error: BaseException) -> End:
        """Return the end of an attempt that raised where nothing should."""
        return exhausted_if_last(self._failed(error), self.task)

    def _arguments(self) -> dict[str, Any]:
        if self.handler.executor == "process":
            return {}  # the child builds them, and has a context of its own
        arguments = payload.decode(self.task.payload)
        if self.handler.takes_as_is(arguments):
            return arguments
        if self.handler.context_name is not None:
            self.context = context.of(self.task, self.services, self.begun_at)
        # A thread builds them itself.
        return self.handler.bind(arguments, self.context) if self.handler.is_async else arguments

    async def _returned(self, value: object) -> End:
        if self.context is not None and self.context.was_told:
            # It looked at `cancelled` and returned; whether it was done by then nobody can say.
            if self.called_off:
                raise asyncio.CancelledError
            return self.timed_out()
        if value is None:
            return NO_RESULT if self.context is None else Completed(self.context.result_text)
        if type(value) is Written:
            return Completed(value.text)
        text = result_fast.encode_fast(value, bytes_max=self.result_bytes_max)
        if text is None:
            text = await self.apart(encode_result, value, self.result_bytes_max)
        return Completed(text)

    async def apart(self, function: Callable[..., T], *arguments: Any, seconds: float | None = None) -> T:
        """Run the code of what the handler has raised or returned, which may be anything, off the loop."""
        return cast("T", await self.executors.apart(function, *arguments, seconds=seconds))

    async def _raised(self, error: BaseException) -> End:
        """Return the end of an attempt that raised this."""
        if is_ours(error):
            return self._judged(error)
        try:
            return await self.apart(self._judged, error, seconds=error_text.TEXT_SECONDS)
        except TimeoutError:
            failed = Failed(error_text.untold(error), "failed", self._backoff_seconds())
            return exhausted_if_last(failed, self.task)
        except asyncio.CancelledError:
            if self.called_off or not self.expired:
                raise
            return self.timed_out()

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
            case Released():
                return  # called off, and no word of the handler's
            case _:
                what = f"it asked to be {type(end).__name__.lower()}"
        events.emit(events.OutcomeIgnored(self.task.id, self.task.type, self.task.queue, what))

    def _say_if_abandoned(self) -> None:
        """A thread that was not waited for any longer goes on."""
        job = asyncio.current_task()
        if self.handler.executor == "thread" and job is not None and job.cancelling():
            events.emit(events.HandlerAbandoned(self.task.id, self.task.type))

    def _failed(self, error: BaseException) -> Failed:
        return Failed(error_text.of(error), "failed", self._backoff_seconds())

    def _signalled(self, signal: HandlerSignal) -> End:
        try:
            return self._meant(signal)
        except ValueError as error:  # a delay that is none: the handler's mistake, so its failure
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
    """Tell whether what an exception says needs no code but ours and Python's own."""
    kind = type(error)
    return kind in OURS or (kind in SIGNALS and all(type(value) in PLAIN for value in vars(error).values()))


def encode_result(value: object, bytes_max: int) -> str:
    return payload.encode_result(value, bytes_max=bytes_max)


def exhausted_if_last(end: End, task: Claimed) -> End:
    """Turn a failure into a dead letter when no attempt is left."""
    if isinstance(end, Failed) and task.attempt >= task.max_attempts:
        return DeadLettered(end.fault, end.kind)
    return end
