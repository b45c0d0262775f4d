"""Run a suspect (a task that has cost two workers) alone: if it kills this worker, too, no other task is lost with it.

    claimed ──► the worker claims no more, and waits until its other tasks have ended ──► runs alone in its process
                   │ not within 10 s, and another worker already makes room for a suspect: snoozed for 5 s
                   │ not within 10 s and the grace of a shutdown: running tasks are released, as at a shutdown

So a claimed suspect starts within 10 s, the grace, and the 10 s that cancelled handlers have to end, whatever else
runs. If there are several suspects, each waits for those before it. A worker holds one and releases the others to other
workers. Only one worker at a time waits beyond the first 10 s.
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

# A task with so many losses is a suspect.
SUSPECT_LOSSES = 2
# How long any worker claims nothing because of a suspect, and for how long it then puts the suspect off.
PATIENCE_SECONDS = 10.0
AWAY = Snoozed(5.0)
WRITTEN_PATIENCE_SECONDS = 1.0


class Suspects:
    """The suspect of one worker, if it has one. `begin` marks it `running` and starts it; `give_back` ends all running
    attempts and releases their tasks."""

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
        """Return the task that waits to run alone, if there is one. Any thread may call this."""
        return [*self._held]

    def take(self, tasks: list[Claimed], *, worker_id: UUID) -> None:
        """Keep one of these, if none waits. Release the others."""
        if tasks and not self._held:
            self._held, tasks = tasks[:1], tasks[1:]
            self._since, self._is_oldest_suspect = time.monotonic(), False
        for task in tasks:
            self._slots.release(task, worker_id=worker_id)

    def release(self, *, worker_id: UUID) -> None:
        """Release it."""
        for task in self.forget():
            self._slots.release(task, worker_id=worker_id)

    def forget(self) -> list[Claimed]:
        """Hold it no longer. Return it."""
        held, self._held = self._held, []
        return held

    async def advance(self, worker_id: UUID) -> None:
        """Run it alone once nothing else runs and all outcomes are written: a crash would lose unwritten ones.
        Otherwise wait, or make room."""
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
        """Wait until all outcomes are written, but not for long: a transaction may have a row locked."""
        end = time.monotonic() + WRITTEN_PATIENCE_SECONDS
        while (is_left := bool(self._outbox.held())) and not self._is_stopping() and time.monotonic() < end:
            await self._idle.wait_for_room(end - time.monotonic())
            self._idle.forget()
        return not is_left


async def is_oldest_suspect(
    connection: psycopg.AsyncConnection[Any], *, task: Claimed, worker_id: UUID
) -> bool:
    """Tell whether this worker may stop its other tasks for this suspect."""
    given = {"id": task.id, "lease": task.lease, "worker_id": worker_id}
    return await (await connection.execute(IS_OLDEST_SUSPECT, given)).fetchone() is not None
