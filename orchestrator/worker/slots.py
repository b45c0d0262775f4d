"""The slots of a worker. Each takes an attempt from the line, runs it, writes its outcome down, and takes the next.

A slot is one long-lived asyncio task, since one for each attempt would cost as much as everything else together. A slot
ends if the worker has stopped its attempt, if its asyncio task was cancelled, or if an attempt has changed its context
variables; a new slot replaces it. No attempt has a timer: one look at all of them finds timeouts and missing marks
`running` (end_attempts.py).
"""

import asyncio
import contextvars
import math
import time
from collections.abc import Callable, Collection

from orchestrator import events, execute, observe
from orchestrator.config import Config
from orchestrator.execute import Attempt, Executors, Registry, Services
from orchestrator.execute.context import NOWHERE
from orchestrator.finish import Outbox, announce
from orchestrator.task import trace
from orchestrator.task.outcome import RELEASED, End, Recorded
from orchestrator.worker.ledger import Ledger

# How long attempts that never wait may occupy the loop.
SLICE_SECONDS = 0.002


class Slots:
    """Runs as many attempts at once as the worker has slots. `mark` is called when one is to be marked before its
    start. `handler_of` finds the handler of a type, and `attempt` makes an attempt."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        ledger: Ledger,
        outbox: Outbox,
        services: Services = NOWHERE,
        *,
        mark: Callable[[], None],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._outbox = outbox
        self._mark = mark
        self._executors = Executors(
            registry, size=config.concurrency, result_bytes_max=config.result_bytes_max
        )
        self.handler_of = registry.find
        self.attempt = execute.maker(self._executors, services, observe.tracing())
        self._slots: set[asyncio.Task[None]] = set()
        self._left_behind: set[asyncio.Task[None]] = set()
        self._starting: dict[Attempt, asyncio.Future[bool]] = {}
        self._parked: list[asyncio.Future[None]] = []
        self._is_waking = False
        self._emits_starts = False  # a subscriber or the log wants each start
        self._context: contextvars.Context | None = None

    @property
    def left_behind(self) -> int:
        """How many handlers ignored their timeout or their cancellation and may still run."""
        return self._executors.abandoned + len(self._left_behind)

    @property
    def leaked_threads(self) -> int:
        """How many threads were left behind and still run."""
        return self._executors.abandoned

    def wake(self) -> None:
        """Go on: there are attempts in the line, or there is room in the outbox."""
        if self._ledger.line:
            self.wake_one()
        self._ledger.freed()

    def marked(self, attempts: Collection[Attempt], ids: Collection[int]) -> None:
        """Note that the tasks with these ids are marked `running`. Those that were to be marked before their start go
        on: the others of them are released."""
        for attempt in attempts:
            is_marked = attempt.task.id in ids
            if is_marked:
                attempt.mark_at = math.inf
            if (start := self._starting.pop(attempt, None)) is not None and not start.done():
                start.set_result(is_marked)

    def refuse_starts(self) -> None:
        """Start none of those that are still to be marked."""
        self.marked(list(self._starting), ())

    def leave_behind(self, attempt: Attempt) -> None:
        """Another slot takes the place of this one, whose handler does not end."""
        self._left_behind.add(attempt.slot)
        self._ledger.write(attempt, attempt.ending or RELEASED)
        self.wake_one()

    def stop(self) -> None:
        """End the slots that wait, the threads and the child processes."""
        for slot in self._slots - {attempt.slot for attempt in self._ledger.in_slots}:
            slot.cancel()
        self._executors.stop()

    # One slot.

    async def _serve(self) -> None:
        """Run one attempt after another."""
        self._is_waking = False
        slot = asyncio.current_task()
        assert slot is not None  # nosec B101 # noqa: S101 - for the type checker: this runs in an asyncio task
        base = contextvars.copy_context()
        until = self._slice()
        try:
            # Ends: after an attempt that is the slot's last, or when stop() cancels the slot while it waits.
            while True:
                if (attempt := self._next()) is None:
                    await self._park()
                    until = self._slice()
                    continue
                attempt.in_slot = slot
                await self._run(attempt)
                if attempt.ending is not None or slot.cancelling() or contextvars.copy_context() != base:
                    break
                if attempt.ended_at > until:
                    await asyncio.sleep(0)
                    until = self._slice()
        finally:
            self._slots.discard(slot)
            self._left_behind.discard(slot)
            if self._ledger.line:
                self.wake_one()

    def _slice(self) -> float:
        """Begin a turn of attempts that never wait, and return when it ends. Subscribers are looked up once per turn: a
        new one gets the starts from the next turn on."""
        self._emits_starts = self._config.log_payloads or events.wanted(events.TaskStarted)
        return time.monotonic() + SLICE_SECONDS

    def _next(self) -> Attempt | None:
        """Take an attempt from the line, if the outbox has room for its outcome."""
        line = self._ledger.line
        if not line or self._outbox.is_full:
            return None
        try:
            attempt = line.popleft()
        except IndexError:  # the heartbeat's thread has taken it
            return None
        if line and not self._is_waking:
            # Each slot wakes the next: this slot runs attempts that never wait before the other gets a turn.
            self.wake_one()
        return attempt

    async def _run(self, attempt: Attempt) -> None:
        """Run one attempt, and put its outcome into the outbox."""
        task = attempt.task
        # An earlier attempt went wrong: the task may kill workers.
        if (task.put_back is not None or task.losses) and not await self._is_marked(attempt):
            # Its row is locked, its lease is lost, or the worker stops. The outbox finds out which.
            self._ledger.write(attempt)
            return
        self._ledger.start(attempt)
        if self._emits_starts:
            emit_start(attempt, with_payload=self._config.log_payloads)
        end: End
        try:
            end = await attempt.run()
        except Exception as error:
            # Every attempt needs an end. Without one its task would be started again for ever.
            end = attempt.broke(error)
        if attempt.context is not None:
            try:
                end = await attempt.settled(end)
            except Exception as error:
                end = attempt.broke(error)
        if attempt not in self._ledger.in_slots:
            return  # left behind: its outcome is written
        if type(end) is Recorded:
            self._announce(attempt, end)
        elif attempt.state == "abandoned":
            self._ledger.write(attempt, attempt.ending or end)
        else:
            self._ledger.write(attempt, end)

    async def _is_marked(self, attempt: Attempt) -> bool:
        """Wait until its row is marked `running`: if this worker dies, the attempt counts as begun."""
        self._ledger.prepare(attempt)
        marked: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._starting[attempt] = marked
        self._mark()
        try:
            return await marked
        except asyncio.CancelledError:  # left behind by the handler before it; the slot ends
            self._starting.pop(attempt, None)
            return False

    def _announce(self, attempt: Attempt, end: Recorded) -> None:
        """The handler has completed the task itself."""
        attempt.end, attempt.ended_at = end, time.monotonic()
        self._ledger.leave((attempt,))
        announce([attempt], worker_id=attempt.worker_id)
        self._ledger.freed()

    async def _park(self) -> None:
        woken = asyncio.get_running_loop().create_future()
        self._parked.append(woken)
        try:
            await woken
        finally:
            self._is_waking = False

    def wake_one(self) -> None:
        """Let one more slot look at the line."""
        if self._is_waking:
            return
        while self._parked:
            woken = self._parked.pop()
            if not woken.done():
                woken.set_result(None)
                self._is_waking = True
                return
        if len(self._slots) - len(self._left_behind) < self._config.concurrency:
            self._is_waking = True
            # An attempt may change the context of its slot. Each slot begins with a copy of what was before them all.
            if self._context is None:
                self._context = contextvars.copy_context()
            context = self._context.copy()
            self._slots.add(asyncio.create_task(self._serve(), name="orchestrator slot", context=context))


def emit_start(attempt: Attempt, *, with_payload: bool) -> None:
    """Emit the start of an attempt."""
    task = attempt.task
    name = (task.id, task.type, task.queue, task.attempt)
    if events.wanted(events.TaskStarted):
        trace_id = trace.id_of(task.trace_context)
        events.emit(events.TaskStarted(*name, worker_id=attempt.worker_id, trace_id=trace_id))
    if with_payload:
        events.emit(events.TaskPayload(*name, task.payload))
