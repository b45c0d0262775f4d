"""The slots of a worker, and the tasks that wait for one.

    add ──► ready ──► a slot takes the task, runs it, puts its outcome into the outbox, takes the next
              │
              └─► released: at shutdown, when it waits too long behind others, when the loop is blocked

A slot is one long-lived asyncio task, since one for each attempt would cost as much as everything else together. A
slot ends if its asyncio task was cancelled, or if an attempt has changed its context variables; a new slot replaces it.
No attempt has a timer: one look at all of them finds timeouts and missing marks `running` (end_attempts.py).
"""

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from uuid import UUID

from orchestrator import events, observe
from orchestrator.config import Config
from orchestrator.execute import Attempt, Executors, Registry, Services, Spans, Traced
from orchestrator.execute.context import NOWHERE
from orchestrator.finish import Outbox, announce
from orchestrator.task import trace
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import End, Outcome, Recorded, Released
from orchestrator.worker.slot import MARK_AGAIN_SECONDS, Slot, Waiting, is_unmarked, taken

# How long attempts that never wait may occupy the loop.
SLICE_SECONDS = 0.002


class Slots:
    """Runs as many attempts at once as the worker has slots. `freed` is called when there may be room for more."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        outbox: Outbox,
        *,
        freed: Callable[[], None],
        services: Services = NOWHERE,
    ) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._freed = freed
        self._services = services
        # Chosen once, so a worker without tracing pays nothing for it.
        spans: Spans | None = observe.tracing()
        self._attempt: Callable[..., Attempt] = Attempt if spans is None else partial(Traced, spans=spans)
        self._executors = Executors(
            registry, size=config.concurrency, result_bytes_max=config.result_bytes_max
        )
        self.ready: deque[Waiting] = deque()
        self.marked_first: deque[Waiting] = deque()
        self._slots: set[Slot] = set()
        self.busy: set[Slot] = set()
        self.abandoned: set[Slot] = set()
        self._parked: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._emits_starts = False  # a subscriber or the log wants each start
        self.changed = asyncio.Event()
        self._context: contextvars.Context | None = None
        self.begun = 0
        self.low_water = 0
        self.stale = 0  # how often waiting tasks were released

    @property
    def free(self) -> int:
        """How many attempts may begin beside the ready ones. Below zero: so many are ready beyond the slots."""
        return self._config.concurrency - len(self.busy) - len(self.ready) - len(self.marked_first)

    @property
    def left_behind(self) -> int:
        """How many handlers ignored their timeout or their cancellation and may still run."""
        return self._executors.abandoned + len(self.abandoned)

    @property
    def leaked_threads(self) -> int:
        """How many threads were left behind and still run."""
        return self._executors.abandoned

    def running(self) -> list[Claimed]:
        """Return tasks whose attempts have begun and not ended. Any thread may call this, so read each slot once."""
        attempts = [slot.attempt for slot in list(self.busy)]
        return [attempt.task for attempt in attempts if attempt is not None]

    def held(self) -> list[Claimed]:
        """Return the tasks that wait for a slot or are in one. Any thread may call this."""
        return [*(task for task, *_ in (*list(self.ready), *list(self.marked_first))), *self.running()]

    def add(self, tasks: Iterable[Claimed], *, worker_id: UUID) -> None:
        """Begin an attempt for each task as soon as a slot is free."""
        now = time.monotonic()
        if self._context is None:
            # The worker's own context, before any attempt changes it.
            self._context = contextvars.copy_context()
        self.ready.extend((task, worker_id, now, False) for task in tasks)
        self.changed.set()
        self.wake_one()

    def add_marked_first(self, tasks: Iterable[Claimed], *, worker_id: UUID) -> None:
        """Keep tasks that may kill workers until there are slots for them. They are marked `running` before they start:
        if the worker dies, a marked task counts as begun."""
        now = time.monotonic()
        self.marked_first.extend((task, worker_id, now, False) for task in tasks)
        self.changed.set()

    def take_marked_first(self) -> list[tuple[Claimed, UUID]]:
        """Take as many of these as there are slots. The caller marks them and adds them first."""
        vacant = self._config.concurrency - len(self.busy)
        return taken(self.marked_first, max(0, vacant))

    def add_first(self, tasks: Iterable[Claimed], *, worker_id: UUID) -> None:
        """Begin an attempt for each of these tasks before all others. They are marked `running`."""
        now = time.monotonic()
        self.ready.extendleft((task, worker_id, now, True) for task in reversed(list(tasks)))
        self.changed.set()
        self.wake_one()

    def take_back(self) -> list[tuple[Claimed, UUID]]:
        """Take away all tasks that wait for a slot, with the worker ids of their claims. Any thread may call this: each
        task goes to a slot or to one caller, never to both."""
        return taken(self.ready, len(self.ready)) + taken(self.marked_first, len(self.marked_first))

    def unmarked(self) -> list[tuple[Attempt, float]]:
        """Return the attempts that should be marked `running`, and how long each has run. The same attempt is returned
        again after MARK_AGAIN_SECONDS."""
        now = time.monotonic()
        found = []
        for slot in list(self.busy):
            attempt = slot.attempt
            if attempt is not None and is_unmarked(attempt, now):
                attempt.mark_at = now + MARK_AGAIN_SECONDS
                found.append((attempt, now - attempt.begun_at))
        return found

    def knows(self, kind: str) -> bool:
        return self._registry.find(kind) is not None

    def release(self, task: Claimed, *, worker_id: UUID) -> None:
        """Release a task that has not begun."""
        self._outbox.put(Outcome(task, Released()), worker_id=worker_id)

    def release_ready(self) -> None:
        """Release every task that waits for a slot."""
        for task, worker_id in self.take_back():
            self.release(task, worker_id=worker_id)

    def stop(self) -> None:
        """End the slots that wait, the threads and the child processes."""
        for slot in list(self._slots - self.busy):
            if slot.job is not None:
                slot.job.cancel()
        self._executors.stop()

    # One slot.

    def _new_slot(self) -> None:
        slot = Slot()
        self._slots.add(slot)
        # In a fresh context: an attempt may have changed the context of the slot that makes this one.
        context = self._context.copy() if self._context is not None else None
        slot.job = asyncio.create_task(self._serve(slot), name="orchestrator slot", context=context)

    async def _serve(self, slot: Slot) -> None:
        """Run one attempt after another."""
        self._is_waking = False
        base = contextvars.copy_context()
        until = self._slice()
        try:
            # Ends: after an attempt that is the slot's last, or when stop() cancels the slot while it waits.
            while True:
                attempt = self._next(slot)
                if attempt is None:
                    await self._park()
                    until = self._slice()
                    continue
                ended_at = await self._run(slot, attempt)
                if slot.is_last or slot.is_void or slot.is_spent() or contextvars.copy_context() != base:
                    break
                if ended_at > until:
                    await asyncio.sleep(0)
                    until = self._slice()
        finally:
            self.vacate(slot)
            self._slots.discard(slot)
            self.abandoned.discard(slot)
            if self.ready:
                self.wake_one()

    def _slice(self) -> float:
        """Begin a turn of attempts that never wait, and return when it ends. Subscribers are looked up once per turn: a
        new one gets the starts from the next turn on."""
        self._emits_starts = self._config.log_payloads or events.wanted(events.TaskStarted)
        return time.monotonic() + SLICE_SECONDS

    async def _run(self, slot: Slot, attempt: Attempt) -> float:
        """Run one attempt, and return when it ended."""
        if self._emits_starts:
            emit_start(attempt, with_payload=self._config.log_payloads)
        end: End
        try:
            end = await attempt.run()
        except asyncio.CancelledError:
            # give_back or drop has called the attempt off, so its task is released.
            end = Released()
        except Exception as error:
            # Every attempt needs an end. Without one its task would be started again for ever.
            end = attempt.broke(error)
        if attempt.context is not None:
            try:
                end = await attempt.settled(end)
            except Exception as error:
                end = attempt.broke(error)
        outcome = attempt.outcome(end)
        if type(end) is Recorded:
            announce([outcome], worker_id=attempt.worker_id)
        elif not slot.is_void:
            self._outbox.put(outcome, worker_id=attempt.worker_id)
        if not slot.is_void:
            # Vacate only now: the outcome is in the outbox, so the worker's list of held tasks never misses this one.
            self.vacate(slot)
        return outcome.ended_at

    def _next(self, slot: Slot) -> Attempt | None:
        """Take a ready task, if the outbox has room for its outcome."""
        if not self.ready or self._outbox.is_full:
            return None
        try:
            task, worker_id, taken_at, is_marked = self.ready.popleft()
        except IndexError:  # the heartbeat's thread has taken it back
            return None
        handler = self._registry.find(task.type)
        assert handler is not None  # nosec B101 # noqa: S101 - the caller has asked `knows`; a registry never forgets
        attempt = self._attempt(
            task,
            handler,
            worker_id,
            self._executors,
            self._config.result_bytes_max,
            is_marked,
            services=self._services,
            taken_at=taken_at,
        )
        slot.attempt = attempt
        self.busy.add(slot)
        self.begun += 1
        if self.ready and not self._is_waking:
            # Each slot wakes the next: this slot runs attempts that never wait before the other gets a turn.
            self.wake_one()
        return attempt

    def vacate(self, slot: Slot) -> None:
        slot.attempt = None
        if slot in self.busy:
            self.busy.remove(slot)
            if len(self.ready) <= self.low_water:
                self._freed()

    async def _park(self) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._parked.append(woken)
        try:
            await woken
        finally:
            self._is_waking = False

    def wake(self) -> None:
        """Go on: there may be room in the outbox."""
        if self.ready:
            self.wake_one()
        self._freed()

    def wake_one(self) -> None:
        if self._is_waking:
            return
        while self._parked:
            woken = self._parked.pop()
            if not woken.done():
                woken.set_result(None)
                self._is_waking = True
                return
        if len(self._slots) - len(self.abandoned) < self._config.concurrency:
            self._is_waking = True
            self._new_slot()


def emit_start(attempt: Attempt, *, with_payload: bool) -> None:
    """Emit the start of an attempt."""
    task = attempt.task
    name = (task.id, task.type, task.queue, task.attempt)
    if events.wanted(events.TaskStarted):
        trace_id = trace.id_of(task.trace_context)
        events.emit(events.TaskStarted(*name, worker_id=attempt.worker_id, trace_id=trace_id))
    if with_payload:
        events.emit(events.TaskPayload(*name, task.payload))
