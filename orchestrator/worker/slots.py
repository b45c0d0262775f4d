"""The attempts a worker has in hand, and what becomes of each."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from orchestrator import events
from orchestrator.config import Config
from orchestrator.errors import LeaseLost
from orchestrator.execute import Attempt, Registry, Services, Threads
from orchestrator.execute.context import NOWHERE
from orchestrator.finish import Outbox
from orchestrator.task.model import Claimed
from orchestrator.task.outcome import End, Fault, Outcome, PutBack, Recorded, Released

# A type nobody here knows: the first wait, doubled each time, up to the longest.
PUT_BACK_SECONDS = 5.0
PUT_BACK_SECONDS_MAX = 300.0

# How long a cancelled handler may take to clean up before its task is given back over its head.
CANCEL_SECONDS = 5.0
WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A task in a slot."""

    task: Claimed
    worker_id: UUID
    attempt: Attempt


class Slots:
    """As many attempts at once as the worker has slots."""

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
        self._services = services
        self._freed = freed
        self._threads = Threads(config.concurrency)
        self._running: dict[asyncio.Task[None], Held] = {}
        self._void: set[asyncio.Task[None]] = set()
        self._handing_over: set[asyncio.Task[None]] = set()
        self._stubborn: set[asyncio.Task[None]] = set()
        self._farewells: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        return self._config.concurrency - len(self._running)

    @property
    def left_behind(self) -> int:
        """How many handlers ignored their timeout or their cancellation, and may still run."""
        return self._threads.abandoned + len(self._stubborn)

    def held(self) -> list[Claimed]:
        """Return the tasks whose attempts have not ended. Any thread may ask."""
        return [held.task for held in list(self._running.values())]

    def start(self, tasks: Iterable[Claimed], *, worker_id: UUID) -> None:
        """Begin an attempt for each task; a task takes its slot at once."""
        for task in tasks:
            handler = self._registry.find(task.type)
            assert handler is not None  # noqa: S101 - the caller has asked `knows`; a registry never forgets
            attempt = Attempt(task, handler, self._threads, self._config.result_bytes_max, self._services)
            held = Held(task, worker_id, attempt)
            job = asyncio.create_task(self._run(held), name=f"orchestrator task {task.id}")
            self._running[job] = held
            job.add_done_callback(self._ended)

    async def watch(self) -> None:
        """Part with handlers that go on after their timeout has cancelled them: their slots are for others."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            for job, held in list(self._running.items()):
                if held.attempt.overdue_seconds() > CANCEL_SECONDS and job not in self._handing_over:
                    await self._leave_behind(job, held, held.attempt.timed_out())

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
        spoken_for = self._handing_over | self._void
        jobs = {job: held for job, held in self._running.items() if job not in spoken_for}
        await self._cancel(set(jobs), "the worker gives it back")
        for job, held in jobs.items():
            if not job.done():
                # A handler that does not end when cancelled: its lease is given up all the same.
                await self._leave_behind(job, held, Released())
            elif job.cancelled():
                # Cancelled before its first step, so that it could not say so itself.
                await self.release(held.task, worker_id=held.worker_id)
        if self._handing_over:
            await asyncio.wait(set(self._handing_over))

    def lose(self, lost: Mapping[tuple[int, int], str]) -> None:
        """Tell handlers whose leases are lost, at once; their outcomes are not even written."""
        for job, held in list(self._running.items()):
            reason = lost.get((held.task.id, held.task.lease))
            if held.attempt.is_completing:
                continue  # its row has left on its own account, or is about to
            if reason is not None and job not in self._void and job not in self._handing_over:
                events.emit(events.LeaseLost(held.task.id, held.task.type, held.task.queue, reason))
                self._void.add(job)
                farewell = asyncio.create_task(self._part({job}, reason))
                self._farewells.add(farewell)
                farewell.add_done_callback(self._farewells.discard)

    async def drop(self, reason: str) -> int:
        """Cancel everything, since all leases are void; its outcomes are not even written."""
        dropped = set(self._running) - self._void
        self._void |= dropped
        await self._part(dropped, reason)
        if self._farewells:
            await asyncio.wait(self._farewells)
        return len(dropped)

    async def _part(self, jobs: set[asyncio.Task[None]], reason: str) -> None:
        await self._cancel(jobs, reason)
        for job in jobs & set(self._running):
            self._stubborn.add(job)
            self._ended(job)

    def stop(self) -> None:
        self._threads.stop()

    async def _run(self, held: Held) -> None:
        task = held.task
        events.emit(events.TaskStarted(task.id, task.type, task.queue, task.attempt))
        end: End
        try:
            end = await held.attempt.run()
        except asyncio.CancelledError:
            # Called off by give_back or drop: the outcome is that it was given back.
            end = Released()
        except Exception as error:
            # An attempt has an end, whatever happens; without one its task would be started again for ever.
            end = held.attempt.broke(error)
        job = asyncio.current_task()
        if job is not None and job not in self._void and not isinstance(end, Recorded):
            # From here on no drain may cancel it: the outcome would be lost between handler and outbox.
            self._handing_over.add(job)
            await self._outbox.put(Outcome(task, end), worker_id=held.worker_id)

    async def _leave_behind(self, job: asyncio.Task[None], held: Held, end: End) -> None:
        """Go on without a handler that does not end; what it may still return is not looked at."""
        self._void.add(job)
        self._stubborn.add(job)
        events.emit(events.HandlerAbandoned(held.task.id, held.task.type))
        if not held.attempt.is_completing:
            await self._outbox.put(Outcome(held.task, end), worker_id=held.worker_id)
        self._ended(job)

    async def _cancel(self, jobs: set[asyncio.Task[None]], reason: str) -> None:
        """Ask handlers to end, a coroutine by cancelling it, a thread by its context; wait, but not for long."""
        in_threads = set()
        for job in jobs & set(self._running):
            held = self._running[job]
            held.attempt.call_off()
            if held.attempt.handler.is_async:
                job.cancel(LeaseLost(held.task.id, reason))
            else:
                in_threads.add(job)
        if jobs:
            await asyncio.wait(jobs, timeout=CANCEL_SECONDS)
        deaf = {job for job in in_threads if not job.done()}
        for job in deaf:
            job.cancel()
        if deaf:
            await asyncio.wait(deaf, timeout=CANCEL_SECONDS)

    def _ended(self, job: asyncio.Task[None]) -> None:
        if job.done():
            self._void.discard(job)
            self._stubborn.discard(job)
        self._handing_over.discard(job)
        # Only now does the task leave our hands: its outcome is in the outbox, so `held` never misses it.
        if self._running.pop(job, None) is not None:
            self._freed()
