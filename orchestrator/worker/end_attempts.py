"""End attempts that do not end by themselves: their time is over, their lease is lost, or the worker stops.

A coroutine is cancelled, a thread told through its context, and left behind if it does not look. So is a handler that
will not end: its slot goes to others, and what it may still return is not looked at.
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

# How long a cancelled handler may take to clean up before its task is given back over its head.
CANCEL_SECONDS = 5.0
WATCH_SECONDS = 0.025
# What was claimed ahead waits no longer than this behind what runs.
STALE_SECONDS = 1.0


class AttemptEnder:
    """Looks after all slots of a worker at once. `mark` is called when an attempt should be marked running."""

    def __init__(self, slots: Slots, outbox: Outbox, *, mark: Callable[[], None]) -> None:
        self._slots = slots
        self._outbox = outbox
        self._mark = mark
        self._unwritten_losses: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Look at everything that runs, for as long as something does."""
        while True:
            if not self._slots.busy and not self._slots.ready:
                self._slots.changed.clear()
                await self._slots.changed.wait()
            await asyncio.sleep(WATCH_SECONDS)
            self._look(time.monotonic())

    async def give_back(self) -> None:
        """Cancel what still runs, and give it back unfinished."""
        self._slots.release_ready()
        slots = {slot for slot in self._slots.busy if not slot.is_void}
        await self._cancel(slots, "the worker gives it back")
        for slot in slots & self._slots.busy:
            # A handler that does not end when cancelled: its lease is given up all the same.
            self._leave_behind(slot, Released())
        if self._unwritten_losses:
            # What has lost its lease is still to be put on record.
            await asyncio.wait(self._unwritten_losses)

    def lose(self, lost: Mapping[tuple[int, int], str]) -> None:
        """Tell handlers whose leases are lost, at once; their outcomes are not even written, only that they ran."""
        if not lost:
            return
        for slot in list(self._slots.busy):
            attempt = slot.attempt
            if attempt is None or slot.is_void:
                continue
            reason = lost.get((attempt.task.id, attempt.task.lease))
            # A row that the attempt takes away itself is no loss.
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
        """Cancel everything, since all leases are void; its outcomes are not even written, only that it ran."""
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
        """Cancel what runs beyond its timeout; a thread that may look is told first, and has a while for it."""
        first, patience = not attempt.expired, CANCEL_SECONDS if attempt.may_look else 0.0
        if first:
            attempt.expire()
        if overdue_seconds >= patience and slot.job is not None and not slot.is_spent():
            slot.job.cancel()
        elif overdue_seconds > patience + CANCEL_SECONDS:
            self._leave_behind(slot, attempt.timed_out())

    def _leave_behind(self, slot: Slot, end: End) -> None:
        """Go on without a handler that does not end; what it may still return is not looked at."""
        attempt = slot.attempt
        if attempt is None or attempt.is_completing:
            # The answer to its COMMIT is waited for, and that has an end: it alone tells which end the attempt has.
            return
        slot.is_void = True
        self._slots.abandoned.add(slot)
        events.emit(events.HandlerAbandoned(attempt.task.id, attempt.task.type))
        self._outbox.put(attempt.outcome(end), worker_id=attempt.worker_id)
        self._slots.vacate(slot)
        self._slots.wake_one()

    def _spawn_loss_record(self, slot: Slot, reason: str) -> None:
        farewell = asyncio.create_task(self._part(self._voided({slot}), reason))
        self._unwritten_losses.add(farewell)
        farewell.add_done_callback(self._unwritten_losses.discard)

    def _voided(self, slots: Iterable[Slot]) -> dict[Slot, Attempt]:
        """Look no more at what these return; return what they run."""
        running = {slot: slot.attempt for slot in slots if slot.attempt is not None}
        for slot in running:
            slot.is_void = True
        return running

    async def _part(self, running: Mapping[Slot, Attempt], reason: str) -> None:
        """End these attempts, or leave them behind, and put on record that they ran."""
        await self._cancel(set(running), reason)
        for slot in running.keys() & self._slots.busy:
            self._slots.abandoned.add(slot)
            self._slots.vacate(slot)
        for attempt in running.values():
            self._outbox.put(attempt.outcome(Lost(reason)), worker_id=attempt.worker_id)

    async def _cancel(self, slots: set[Slot], reason: str) -> None:
        """Ask handlers to end, a coroutine by cancelling it, a thread by its context; wait, but not for long."""
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
