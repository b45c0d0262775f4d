"""Let a task that has cost two workers their lives run alone: should it take another along, nothing else goes with it.

    claimed ──► the worker claims no more, and waits until all else has ended ──► runs, alone in its process
                   │ not within 10 s, and another worker drains for a suspect already: back to the queue, for 5 s
                   │ not within 10 s and the grace of a shutdown: what still runs is given back, as at a shutdown

So a suspect that was claimed starts within 10 s, the grace, and the 10 s in which handlers may end when cancelled,
whatever else runs; where several are there, after those before it. A worker holds one: the others go to other workers.
Only one worker of a fleet at a time waits beyond the first 10 s.
"""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from uuid import UUID

import psycopg

from orchestrator.finish import Outbox
from orchestrator.postgres import statement
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome, Snoozed
from orchestrator.worker.idle_wait import IdleWait
from orchestrator.worker.slots import Slots

IS_OLDEST_SUSPECT = statement.load(__file__, "is_oldest_suspect.sql")

# From this many losses on a task is a suspect.
SUSPECT_LOSSES = 2
# How long any worker claims nothing for a suspect's sake, and how long the suspect then stays away.
PATIENCE_SECONDS = 10.0
AWAY = Snoozed(5.0)
WRITTEN_PATIENCE_SECONDS = 1.0


class Suspects:
    """The suspect of one worker, if it has one. `begin` marks it running and lets it start; `give_back` ends all that
    runs."""

    def __init__(
        self,
        session: Session,
        *,
        slots: Slots,
        outbox: Outbox,
        rest: IdleWait,
        grace_seconds: float,
        begin: Callable[[list[Claimed], UUID], Awaitable[None]],
        give_back: Callable[[], Awaitable[None]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._session = session
        self._slots = slots
        self._outbox = outbox
        self._idle = rest
        self._grace_seconds = grace_seconds
        self._begin = begin
        self._give_back = give_back
        self._is_stopping = is_stopping
        self._held: list[Claimed] = []
        self._since = 0.0
        self._is_oldest_suspect = False

    def __bool__(self) -> bool:
        return bool(self._held)

    def held(self) -> list[Claimed]:
        """Return the task that waits to run alone, if there is one. Any thread may ask."""
        return [*self._held]

    def take(self, tasks: list[Claimed], *, worker_id: UUID) -> None:
        """Keep one of these, if none waits; give the others back."""
        if tasks and not self._held:
            self._held, tasks = tasks[:1], tasks[1:]
            self._since, self._is_oldest_suspect = time.monotonic(), False
        for task in tasks:
            self._slots.release(task, worker_id=worker_id)

    def release(self, *, worker_id: UUID) -> None:
        """Give it back."""
        for task in self.forget():
            self._slots.release(task, worker_id=worker_id)

    def forget(self) -> list[Claimed]:
        """Hold it no longer; return it."""
        held, self._held = self._held, []
        return held

    async def advance(self, worker_id: UUID) -> None:
        """Run it alone, once nothing else runs and every outcome is written: it would take along what waits, and of its
        own, whoever comes next. Else wait, or make room."""
        if not self._slots.held() and await self._are_outcomes_written():
            await self._run_alone(worker_id)
            return
        waited = time.monotonic() - self._since
        if not self._slots.held():
            self._put_away(worker_id)
        elif waited < PATIENCE_SECONDS:
            await self._idle.wait_for_room(PATIENCE_SECONDS - waited)
        elif not (self._is_oldest_suspect or await self._may_run_alone(worker_id)):
            self._put_away(worker_id)
        elif (left := PATIENCE_SECONDS + self._grace_seconds - waited) > 0:
            await self._idle.wait_for_room(left)
        else:
            await self._give_back()

    async def _run_alone(self, worker_id: UUID) -> None:
        await self._begin(self.forget(), worker_id)
        while self._slots.held() and not self._is_stopping():
            await self._idle.wait_for_room()
            self._idle.forget()
        await self._are_outcomes_written()

    def _put_away(self, worker_id: UUID) -> None:
        for task in self.forget():
            self._outbox.put(Outcome(task, AWAY), worker_id=worker_id)

    async def _may_run_alone(self, worker_id: UUID) -> bool:
        if not self._held:  # the worker has begun anew meanwhile
            return False
        work = partial(is_oldest_suspect, task=self._held[0], worker_id=worker_id)
        self._is_oldest_suspect = await self._session.run(work, give_up_on=lambda _error: self._is_stopping())
        return self._is_oldest_suspect

    async def _are_outcomes_written(self) -> bool:
        """Wait for it, and not for long: somebody may have a row locked."""
        end = time.monotonic() + WRITTEN_PATIENCE_SECONDS
        while (is_left := bool(self._outbox.held())) and not self._is_stopping() and time.monotonic() < end:
            await self._idle.wait_for_room(end - time.monotonic())
            self._idle.forget()
        return not is_left


async def is_oldest_suspect(
    connection: psycopg.AsyncConnection[Any], *, task: Claimed, worker_id: UUID
) -> bool:
    """Tell whether this worker may stop its other work for this suspect."""
    given = {"id": task.id, "lease": task.lease, "worker_id": worker_id}
    return await (await connection.execute(IS_OLDEST_SUSPECT, given)).fetchone() is not None
