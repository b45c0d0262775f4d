"""End attempts that do not end by themselves: on a timeout, on a lost lease, or when the worker stops.

A coroutine is cancelled. A thread gets the cancellation through its context, and is left behind if it does not look.
Any handler that does not end is left behind: its slot is freed, and what it still returns is ignored.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from orchestrator import events
from orchestrator.errors import LeaseLost
from orchestrator.execute import Attempt
from orchestrator.finish import Outbox
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import End, Lost, Released
from orchestrator.worker.slot import Slot, is_unmarked
from orchestrator.worker.slots import Slots

# How long a cancelled handler may clean up before its task is released without waiting for it.
CANCEL_SECONDS = 5.0
WATCH_SECONDS = 0.025
# How long a task that was claimed ahead may wait for a slot.
STALE_SECONDS = 1.0


class AttemptEnder:
    """Watches all slots of a worker at once. `mark` is called when an attempt should be marked `running`."""

    def __init__(self, slots: Slots, outbox: Outbox, *, mark: Callable[[], None]) -> None:
        self._slots = slots
        self._outbox = outbox
        self._mark = mark
        self._unwritten_losses: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Look at all attempts every WATCH_SECONDS while there are any."""
        while True:
            if not self._slots.busy and not self._slots.ready:
                self._slots.changed.clear()
                await self._slots.changed.wait()
            await asyncio.sleep(WATCH_SECONDS)
            self._look(time.monotonic())

    async def give_back(self) -> None:
        """Cancel running attempts, and release their tasks."""
        self._slots.release_ready()
        slots = {slot for slot in self._slots.busy if not slot.is_void}
        await self._cancel(slots, "the worker gives it back")
        for slot in slots & self._slots.busy:
            # The handler does not end when it is cancelled. Its task is released all the same.
            self._leave_behind(slot, Released())
        if self._unwritten_losses:
            # Attempts that lost their leases still have to be put on record.
            await asyncio.wait(self._unwritten_losses)

    def lose(self, lost: Mapping[tuple[int, int], str]) -> None:
        """Cancel handlers whose leases are lost, at once. Their outcomes are not written, only that they ran."""
        if not lost:
            return
        for slot in list(self._slots.busy):
            attempt = slot.attempt
            if attempt is None or slot.is_void:
                continue
            reason = lost.get((attempt.task.id, attempt.task.lease))
            # An attempt that completes its task itself removes the row: its lease is not lost.
            if reason is not None and not attempt.is_completing:
                say_lost(attempt.task, reason)
                self._spawn_loss_record(slot, reason)
        for waiting in (self._slots.ready, self._slots.marked_first):
            for entry in list(waiting):
                if (reason := lost.get((entry[0].id, entry[0].lease))) is not None:
                    with suppress(ValueError):  # the heartbeat's thread has taken it back
                        waiting.remove(entry)
                    say_lost(entry[0], reason)

    async def drop(self, reason: str) -> int:
        """Cancel all attempts, since all leases are void. Their outcomes are not written, only that they ran."""
        dropped = {slot for slot in self._slots.busy if not slot.is_void}
        unbegun = len(self._slots.take_back())
        await self._part(self._voided(dropped), reason)
        if self._unwritten_losses:
            await asyncio.wait(self._unwritten_losses)
        return len(dropped) + unbegun

    def _look(self, now: float) -> None:
        calls = False
        for slot in list(self._slots.busy):
            attempt = slot.attempt
            if attempt is None or slot.is_void:
                continue
            overdue_seconds = attempt.overdue_seconds(now)
            if overdue_seconds > 0:
                self._end_overdue(slot, attempt, overdue_seconds)
            if is_unmarked(attempt, now):
                calls = True
        for waiting in (self._slots.ready, self._slots.marked_first):
            with suppress(IndexError):
                if now - waiting[0][2] > STALE_SECONDS:
                    self._slots.stale += 1
                    self._slots.release_ready()
        if calls:
            self._mark()

    def _end_overdue(self, slot: Slot, attempt: Attempt, overdue_seconds: float) -> None:
        """Cancel an attempt beyond its timeout. A thread with a context first has CANCEL_SECONDS to look and return."""
        first, patience = not attempt.expired, CANCEL_SECONDS if attempt.may_look else 0.0
        if first:
            attempt.expire()
        if overdue_seconds >= patience and slot.job is not None and not slot.is_spent():
            slot.job.cancel()
        elif overdue_seconds > patience + CANCEL_SECONDS:
            self._leave_behind(slot, attempt.timed_out())

    def _leave_behind(self, slot: Slot, end: End) -> None:
        """Go on without a handler that does not end. What it still returns is ignored."""
        attempt = slot.attempt
        if attempt is None or attempt.is_completing:
            # The attempt waits for the answer to its COMMIT, and that wait is limited. Only the answer shows how the
            # attempt ended.
            return
        slot.is_void = True
        self._slots.abandoned.add(slot)
        events.emit(events.HandlerAbandoned(attempt.task.id, attempt.task.type))
        self._outbox.put(attempt.outcome(end), worker_id=attempt.worker_id)
        self._slots.vacate(slot)
        self._slots.wake_one()

    def _spawn_loss_record(self, slot: Slot, reason: str) -> None:
        recording = asyncio.create_task(self._part(self._voided({slot}), reason))
        self._unwritten_losses.add(recording)
        recording.add_done_callback(self._unwritten_losses.discard)

    def _voided(self, slots: Iterable[Slot]) -> dict[Slot, Attempt]:
        """Ignore what the handlers in these slots return from now on. Return their attempts."""
        running = {slot: slot.attempt for slot in slots if slot.attempt is not None}
        for slot in running:
            slot.is_void = True
        return running

    async def _part(self, running: Mapping[Slot, Attempt], reason: str) -> None:
        """End these attempts or leave them behind, and put on record that they ran."""
        await self._cancel(set(running), reason)
        for slot in running.keys() & self._slots.busy:
            self._slots.abandoned.add(slot)
            self._slots.vacate(slot)
        for attempt in running.values():
            self._outbox.put(attempt.outcome(Lost(reason)), worker_id=attempt.worker_id)

    async def _cancel(self, slots: set[Slot], reason: str) -> None:
        """Cancel coroutines directly and threads through their contexts. Wait up to CANCEL_SECONDS, then once more for
        threads that did not look."""
        jobs: set[asyncio.Task[None]] = set()
        in_threads: set[asyncio.Task[None]] = set()
        for slot in slots:
            attempt, job = slot.attempt, slot.job
            if attempt is None or job is None:
                continue
            slot.is_last = True
            attempt.call_off()
            jobs.add(job)
            if attempt.handler.executor != "thread":
                job.cancel(LeaseLost(attempt.task.id, reason))
            else:
                in_threads.add(job)
        if jobs:
            await asyncio.wait(jobs, timeout=CANCEL_SECONDS)
        deaf = {job for job in in_threads if not job.done()}
        for job in deaf:
            job.cancel()
        if deaf:
            await asyncio.wait(deaf, timeout=CANCEL_SECONDS)


def say_lost(task: Claimed, reason: str) -> None:
    events.emit(events.LeaseLost(task.id, task.type, task.queue, reason))
