"""One attempt, as a pipeline: open the payload, call the handler, judge what came of it.

    opened → called → judged → last attempt? then buried

Only a cancellation by the worker (at shutdown, or when the lease is gone) leaves as an exception; it calls the
attempt off first, so that a handler which cancels itself is not taken for one.
"""

import asyncio
import random
import time
from dataclasses import dataclass, field

from orchestrator import events
from orchestrator.errors import Cancel, Discard, HandlerSignal, PayloadRefused, Retry, Snooze
from orchestrator.execute import context, fault
from orchestrator.execute.context import NOWHERE, Context, Services
from orchestrator.execute.registry import Handler
from orchestrator.execute.threads import Threads
from orchestrator.task import backoff, duration, payload
from orchestrator.task.model import Claimed
from orchestrator.task.outcome import Buried, Cancelled, Completed, End, Failed, Fault, Recorded, Snoozed


@dataclass(slots=True)
class Attempt:
    """A task in the hands of its handler."""

    task: Claimed
    handler: Handler
    threads: Threads
    result_bytes_max: int
    services: Services = NOWHERE
    context: Context | None = field(default=None, init=False)
    begun_at: float = field(default_factory=time.monotonic, init=False)
    called_off: bool = field(default=False, init=False)

    async def run(self) -> End:
        """Run the handler to its end, and return which end it was. Raises only CancelledError, and only when
        the attempt was called off."""
        try:
            end = await self._run()
        except asyncio.CancelledError:
            if await self._has_completed():
                return Recorded()
            raise
        if await self._has_completed():
            self._say_ignored(end)
            return Recorded()
        return end

    async def _run(self) -> End:
        try:
            if self.handler.context_name is not None:
                self.context = context.of(self.task, self.services)
            arguments = self.handler.bind(payload.decode(self.task.payload), self.context)
        except (PayloadRefused, TypeError) as error:
            reason = f"the payload does not fit the handler {self.handler.type}: {fault.message(error)}"
            return Buried(Fault(fault.class_name(error), reason), "discarded")
        except BaseException as error:
            # Binding builds what the annotations name, and so runs the user's constructors.
            return self.broke(error)
        end = await self._call(arguments)
        return exhausted_if_last(end, self.task)

    def call_off(self) -> None:
        """Tell the handler that its outcome no longer counts. A cancellation which now follows is the worker's, and
        not one the handler made itself."""
        self.called_off = True
        if self.context is not None:
            self.context.cancel()

    @property
    def is_completing(self) -> bool:
        """Whether the handler has completed the task itself, or may have by now."""
        return self.context is not None and self.context.is_completing

    def overdue_seconds(self) -> float:
        """Return for how long it has gone on beyond its timeout; never positive without one."""
        if not self.task.timeout_seconds:
            return 0.0
        return time.monotonic() - self.begun_at - self.task.timeout_seconds

    def timed_out(self) -> End:
        """Return the end of an attempt that did not end in time."""
        self._tell_handler()
        reason = f"no result within {self.task.timeout_seconds:g} s"
        failed = Failed(Fault("Timeout", reason), "timeout", self._backoff_seconds())
        return exhausted_if_last(failed, self.task)

    def broke(self, error: BaseException) -> End:
        """Return the end of an attempt that raised where nothing should."""
        return exhausted_if_last(self._failed(error), self.task)

    async def _call(self, arguments: dict[str, object]) -> End:
        seconds = self.task.timeout_seconds or None
        try:
            async with asyncio.timeout(seconds) as scope:
                value = await self._value(arguments)
            if self.context is not None and self.context.was_told:
                # It looked at `cancelled` and returned; whether it was done by then nobody can say.
                raise asyncio.CancelledError
            if value is None:
                return Completed(self.context.result_text if self.context is not None else None)
            return Completed(payload.encode_result(value, bytes_max=self.result_bytes_max))
        except TimeoutError as error:
            # The handler's own TimeoutError is an ordinary failure.
            return self.timed_out() if scope.expired() else self._failed(error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if self.called_off:
                if not self.handler.is_async and task is not None and task.cancelling():
                    self._say_abandoned()
                raise
            # The handler cancelled itself, or let a cancellation of its own escape.
            if task is not None:
                task.uncancel()
            return self._failed(error)
        except HandlerSignal as signal:
            return self._signalled(signal)
        except BaseException as error:
            if self.called_off:
                # It failed because it was called off: that costs it nothing.
                raise asyncio.CancelledError from error
            # SystemExit and KeyboardInterrupt too: a handler must not end the worker, nor pass for a success.
            return self._failed(error)

    async def _value(self, arguments: dict[str, object]) -> object:
        if self.handler.is_async:
            return await self.handler.function(**arguments)
        return await self.threads.call(self.handler.function, arguments)

    async def _has_completed(self) -> bool:
        """Tell whether the handler has completed the task itself, once that is known."""
        return self.context is not None and await self.context.ended()

    def _say_ignored(self, end: End) -> None:
        match end:
            case Completed(result) if self.context is not None and result == self.context.result_text:
                return
            case Completed():
                what = "it returned a value; context.result() sets one inside the transaction"
            case Failed(fault) | Buried(fault):
                what = f"it raised {fault.class_name}: {fault.message}"
            case _:
                what = f"it asked to be {type(end).__name__.lower()}"
        events.emit(events.OutcomeIgnored(self.task.id, self.task.type, self.task.queue, what))

    def _tell_handler(self) -> None:
        if self.context is not None:
            self.context.cancel()
        if not self.handler.is_async:
            self._say_abandoned()

    def _say_abandoned(self) -> None:
        events.emit(events.HandlerAbandoned(self.task.id, self.task.type))

    def _failed(self, error: BaseException) -> Failed:
        return Failed(fault.of(error), "failed", self._backoff_seconds())

    def _signalled(self, signal: HandlerSignal) -> End:
        try:
            return self._meant(signal)
        except ValueError as error:  # a delay that is none: the handler's mistake, so its failure
            return self._failed(error)

    def _meant(self, signal: HandlerSignal) -> End:
        match signal:
            case Snooze(after=after):
                return Snoozed(duration.seconds("after", after))
            case Cancel(reason=reason):
                return Cancelled(fault.message(reason))
            case Discard(reason=reason):
                return Buried(Fault("Discard", fault.message(reason)), "discarded")
            case Retry(after=after, reason=reason):
                wait = self._backoff_seconds() if after is None else duration.seconds("after", after)
                return Failed(Fault("Retry", fault.message(reason)), "failed", wait)
            case _:
                return self._failed(signal)

    def _backoff_seconds(self) -> float:
        return backoff.delay_seconds(self.handler.backoff, self.task.attempt, random.random)


def exhausted_if_last(end: End, task: Claimed) -> End:
    """Turn a failure into a dead letter when no attempt is left."""
    if isinstance(end, Failed) and task.attempt >= task.max_attempts:
        return Buried(end.fault, end.kind)
    return end
