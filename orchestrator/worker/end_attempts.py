"""End attempts that do not end by themselves: on a timeout, on a lost lease, or when the worker stops.

A coroutine is cancelled. A thread gets the cancellation through its context, and is left behind if it does not look.
Any handler that does not end is left behind: its slot is freed, and what it still returns is ignored.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from orchestrator import events
from orchestrator.errors import LeaseLost
from orchestrator.execute import Attempt
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import RELEASED, End, Lost
from orchestrator.worker.ledger import Ledger
from orchestrator.worker.run_together import Background
from orchestrator.worker.slots import Slots

# How long a cancelled handler may clean up before its task is released without waiting for it.
CANCEL_SECONDS = 5.0
WATCH_SECONDS = 0.025
# How long a task that was claimed ahead may wait for a slot.
STALE_SECONDS = 1.0


class AttemptEnder:
    """Watches all attempts of a worker at once. `mark` is called when one should be marked `running`."""

    def __init__(self, ledger: Ledger, slots: Slots, *, mark: Callable[[], None]) -> None:
        self._ledger = ledger
        self._slots = slots
        self._mark = mark
        self._losing = Background()
        self._completing: set[Attempt] = set()  # to be left behind, unless their COMMIT ends them

    async def watch(self) -> None:
        """Look at all attempts every WATCH_SECONDS while there are any."""
        while True:
            if self._ledger.is_empty:
                self._ledger.filled.clear()
                await self._ledger.filled.wait()
            await asyncio.sleep(WATCH_SECONDS)
            self._look(time.monotonic())

    def release_waiting(self) -> None:
        """Release the tasks whose handlers have not started."""
        for attempt in self._ledger.take_line():
            self._ledger.write(attempt)
        self._slots.refuse_starts()

    async def give_back(self) -> None:
        """End all attempts, and release their tasks."""
        self.release_waiting()
        attempts = self._ledger.running()
        for attempt in attempts:
            self._stop(attempt, RELEASED)
        await self._end(attempts, "the worker gives it back")
        await self._losing.wait()

    async def drop(self, reason: str) -> None:
        """End all attempts, since all leases are void. Their outcomes are not written, only that they ran."""
        self._ledger.leave(self._ledger.take_line())
        self._slots.refuse_starts()
        self._abandon(self._ledger.running(), reason)
        await self._losing.wait()

    def lose(self, lost: Mapping[tuple[int, int], str]) -> None:
        """End at once the attempts whose leases are lost. One that waits for its mark learns it from the mark."""
        for attempt in [*self._ledger.line, *self._ledger.running()] if lost else ():
            if (reason := lost.get((attempt.task.id, attempt.task.lease))) is None:
                continue
            if attempt.state == "waiting":
                with suppress(ValueError):  # the heartbeat's thread has taken it
                    self._ledger.line.remove(attempt)
                    self._ledger.leave((attempt,))
                    say_lost(attempt.task, reason)
            # An attempt that completes its task itself removes the row: its lease is not lost.
            elif not attempt.is_completing:
                say_lost(attempt.task, reason)
                self._abandon([attempt], reason)

    def _look(self, now: float) -> None:
        for attempt in self._ledger.running():
            if (overdue_seconds := attempt.overdue_seconds(now)) > 0:
                self._end_overdue(attempt, overdue_seconds)
        self._completing &= self._ledger.in_slots
        for attempt in list(self._completing):
            self._leave_behind(attempt)
        with suppress(IndexError):
            if now - self._ledger.line[0].taken_at > STALE_SECONDS:
                self._ledger.stale_at = now
                self.release_waiting()
        if self._ledger.unmarked():
            self._mark()

    def _end_overdue(self, attempt: Attempt, overdue_seconds: float) -> None:
        """Cancel an attempt beyond its timeout. A thread with a context first has CANCEL_SECONDS to look and return."""
        patience = CANCEL_SECONDS if attempt.may_look else 0.0
        if attempt.state == "running":
            self._stop(attempt, attempt.timed_out())
        if overdue_seconds >= patience and not attempt.slot.cancelling():
            attempt.slot.cancel()
        elif overdue_seconds > patience + CANCEL_SECONDS:
            self._leave_behind(attempt)

    def _stop(self, attempt: Attempt, end: End) -> None:
        """Tell the handler to end. If it does not return a value, the attempt ends so."""
        attempt.stop(end)
        if attempt.state == "running":
            self._ledger.move(attempt, "ending")

    def _abandon(self, attempts: Collection[Attempt], reason: str) -> None:
        """The leases are lost: what these handlers return from now on is ignored."""
        for attempt in attempts:
            attempt.stop(Lost(reason))
            self._ledger.move(attempt, "abandoned")
        self._losing.start(self._end(attempts, reason))

    async def _end(self, attempts: Collection[Attempt], reason: str) -> None:
        """Cancel coroutines directly, and threads through their contexts. Wait for them up to CANCEL_SECONDS, then once
        more for threads that did not look. Leave the others behind."""
        for attempt in attempts:
            if attempt.handler.executor != "thread":
                attempt.slot.cancel(LeaseLost(attempt.task.id, reason))
        await self._ended(attempts)
        deaf = [attempt for attempt in attempts if attempt.handler.executor == "thread"]
        for attempt in self._still_run(deaf):
            attempt.slot.cancel()
        await self._ended(deaf)
        for attempt in self._still_run(attempts):
            self._leave_behind(attempt)

    async def _ended(self, attempts: Collection[Attempt]) -> None:
        """Wait up to CANCEL_SECONDS for the end of these."""
        if slots := {attempt.slot for attempt in self._still_run(attempts)}:
            await asyncio.wait(slots, timeout=CANCEL_SECONDS)

    def _still_run(self, attempts: Collection[Attempt]) -> list[Attempt]:
        return [attempt for attempt in attempts if attempt in self._ledger.in_slots]

    def _leave_behind(self, attempt: Attempt) -> None:
        """Go on without a handler that does not end. What it still returns is ignored."""
        # If the attempt waits for the answer to its COMMIT, only that shows how the attempt ended. The wait is limited.
        if attempt.is_completing:
            self._completing.add(attempt)
        else:
            events.emit(events.HandlerAbandoned(attempt.task.id, attempt.task.type))
            self._slots.leave_behind(attempt)


def say_lost(task: Claimed, reason: str) -> None:
    events.emit(events.LeaseLost(task.id, task.type, task.queue, reason))
