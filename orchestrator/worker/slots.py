"""The attempts a worker has in hand, and what becomes of each."""

import asyncio
from collections.abc import Callable, Iterable
from uuid import UUID

from orchestrator import events
from orchestrator.config import Config
from orchestrator.execute import Attempt, Registry, Threads
from orchestrator.finish import Outbox
from orchestrator.task.model import Claimed
from orchestrator.task.outcome import Fault, Outcome, PutBack, Released

# A type nobody here knows: the first wait, doubled each time, up to the longest.
PUT_BACK_SECONDS = 5.0
PUT_BACK_SECONDS_MAX = 300.0

# How long a cancelled handler may take to clean up before its task is given back over its head.
CANCEL_SECONDS = 5.0


class Slots:
    """As many attempts at once as the worker has slots."""

    def __init__(
        self, config: Config, registry: Registry, outbox: Outbox, *, freed: Callable[[], None]
    ) -> None:
        self._config = config
        self._registry = registry
        self._outbox = outbox
        self._freed = freed
        self._threads = Threads(config.concurrency)
        self._running: dict[asyncio.Task[None], tuple[Claimed, UUID]] = {}
        self._void: set[asyncio.Task[None]] = set()
        self._handing_over: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        return self._config.concurrency - len(self._running)

    @property
    def abandoned_threads(self) -> int:
        return self._threads.abandoned

    def held(self) -> list[Claimed]:
        """Return the tasks whose attempts have not ended."""
        return [task for task, _ in self._running.values()]

    def start(self, tasks: Iterable[Claimed], *, worker_id: UUID) -> None:
        """Begin an attempt for each task; a task takes its slot at once."""
        for task in tasks:
            attempt = asyncio.create_task(self._run(task, worker_id), name=f"orchestrator task {task.id}")
            self._running[attempt] = (task, worker_id)
            attempt.add_done_callback(self._ended)

    def knows(self, task: Claimed) -> bool:
        return self._registry.find(task.type) is not None

    async def put_back(self, task: Claimed, *, worker_id: UUID) -> None:
        """Give a task of an unknown type back, visibly, to wait for a worker that knows it."""
        times = min(task.put_back + 1, 30)
        wait = min(PUT_BACK_SECONDS * 2 ** (times - 1), PUT_BACK_SECONDS_MAX)
        reason = f"worker {worker_id} serves queue {task.queue} but has no handler for type {task.type}"
        await self._outbox.put(
            Outcome(task, PutBack(Fault("UnknownType", reason), wait, times)), worker_id=worker_id
        )

    async def release(self, task: Claimed, *, worker_id: UUID) -> None:
        """Give a task back that has not begun."""
        await self._outbox.put(Outcome(task, Released()), worker_id=worker_id)

    async def give_back(self) -> None:
        """Cancel what still runs, and give it back unfinished; what has an outcome hands it over."""
        await cancel(set(self._running) - self._handing_over)
        # A handler that does not end when cancelled: its lease is given up all the same.
        for attempt, (task, worker_id) in list(self._running.items()):
            if attempt not in self._handing_over:
                self._void.add(attempt)
                await self.release(task, worker_id=worker_id)
        if self._handing_over:
            await asyncio.wait(set(self._handing_over))

    async def drop(self) -> int:
        """Cancel everything whose leases are void; its outcomes are not even written."""
        dropped = len(self._running)
        self._void |= set(self._running)
        await cancel(set(self._running))
        return dropped

    def stop(self) -> None:
        self._threads.stop()

    async def _run(self, task: Claimed, worker_id: UUID) -> None:
        handler = self._registry.find(task.type)
        assert handler is not None  # noqa: S101 - the caller has asked `knows`; a registry never forgets
        events.emit(events.TaskStarted(task.id, task.type, task.queue, task.attempt))
        attempt = Attempt(task, handler, self._threads, self._config.result_bytes_max)
        try:
            end = await attempt.run()
        except asyncio.CancelledError:
            # Cancelled by drain or drop, and no further: the outcome is that it was given back.
            end = Released()
        this = asyncio.current_task()
        if this is not None and this not in self._void:
            # From here on no drain may cancel it: the outcome would be lost between handler and outbox.
            self._handing_over.add(this)
            await self._outbox.put(Outcome(task, end), worker_id=worker_id)

    def _ended(self, attempt: asyncio.Task[None]) -> None:
        # Only now does the task leave our hands: its outcome is in the outbox, so `held` never misses it.
        self._running.pop(attempt, None)
        self._void.discard(attempt)
        self._handing_over.discard(attempt)
        self._freed()


async def cancel(attempts: set[asyncio.Task[None]]) -> None:
    for attempt in attempts:
        attempt.cancel()
    if attempts:
        await asyncio.wait(attempts, timeout=CANCEL_SECONDS)
