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

import psycopg

from orchestrator.execute import Attempt
from orchestrator.finish import Outbox
from orchestrator.notify.idle_wait import IdleWait
from orchestrator.postgres import statement
from orchestrator.postgres.session import Session
from orchestrator.task.outcome import RELEASED, End, Snoozed
from orchestrator.worker.ledger import Ledger
from orchestrator.worker.slots import Slots

IS_OLDEST_SUSPECT = statement.load(__file__, "is_oldest_suspect.sql")

# A task with so many losses is a suspect.
SUSPECT_LOSSES = 2
# How long any worker claims nothing because of a suspect, and for how long it then puts the suspect off.
PATIENCE_SECONDS = 10.0
AWAY = Snoozed(5.0)
WRITTEN_PATIENCE_SECONDS = 1.0


class Suspects:
    """The suspect of one worker, if it has one. `mark_running` marks it before its start, `give_back` ends all running
    attempts and releases their tasks."""

    def __init__(
        self,
        session: Session,
        *,
        ledger: Ledger,
        outbox: Outbox,
        rest: IdleWait,
        grace_seconds: float,
        slots: Slots,
        mark_running: Callable[[], Awaitable[None]],
        give_back: Callable[[], Awaitable[None]],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._session = session
        self._ledger = ledger
        self._outbox = outbox
        self._idle = rest
        self._grace_seconds = grace_seconds
        self._slots = slots
        self._mark_running = mark_running
        self._give_back = give_back
        self._is_stopping = is_stopping
        self._held: Attempt | None = None
        self._since, self._is_oldest_suspect = 0.0, False

    def __bool__(self) -> bool:
        return self._held is not None

    def take(self, attempts: list[Attempt]) -> None:
        """Keep one of these, if none waits. Release the others."""
        for attempt in attempts:
            if self._held is None:
                self._held, self._since, self._is_oldest_suspect = attempt, time.monotonic(), False
            else:
                self._ledger.write(attempt)

    def put_away(self, end: End = RELEASED) -> None:
        """End it so."""
        if (suspect := self.forget()) is not None:
            self._ledger.write(suspect, end)

    def forget(self) -> Attempt | None:
        """Hold it no longer. Return it."""
        held, self._held = self._held, None
        return held

    async def advance(self) -> None:
        """Run it alone once nothing else runs and all outcomes are written, else wait, or make room."""
        if not self._ledger.at_work and await self._are_outcomes_written():
            await self._run_alone()
            return
        waited = time.monotonic() - self._since
        if not self._ledger.at_work:
            self.put_away(AWAY)
        elif waited < PATIENCE_SECONDS:
            await self._idle.wait_for_room(PATIENCE_SECONDS - waited)
        elif not (self._is_oldest_suspect or await self._may_run_alone()):
            self.put_away(AWAY)
        elif (left := PATIENCE_SECONDS + self._grace_seconds - waited) > 0:
            await self._idle.wait_for_room(left)
        else:
            await self._give_back()

    async def _run_alone(self) -> None:
        if (suspect := self.forget()) is not None:
            suspect.taken_at = time.monotonic()  # it has not waited in the line
            self._ledger.line_up([suspect])
            self._slots.wake_one()
        while self._ledger.at_work and not self._is_stopping():
            self._idle.forget()
            await self._mark_running()
            await self._idle.wait_for_room()
        await self._are_outcomes_written()

    async def _may_run_alone(self) -> bool:
        if self._held is None:  # the worker has begun anew meanwhile
            return False
        work = partial(is_oldest_suspect, suspect=self._held)
        self._is_oldest_suspect = await self._session.run(work, give_up_on=lambda _error: self._is_stopping())
        return self._is_oldest_suspect

    async def _are_outcomes_written(self) -> bool:
        """Wait until all outcomes are written, but not for long: a transaction may have a row locked."""
        end = time.monotonic() + WRITTEN_PATIENCE_SECONDS
        while self._outbox.count and not self._is_stopping() and time.monotonic() < end:
            self._idle.forget()
            await self._idle.wait_for_room(end - time.monotonic())
        return not self._outbox.count


async def is_oldest_suspect(connection: psycopg.AsyncConnection[Any], *, suspect: Attempt) -> bool:
    """Tell whether this worker may stop its other tasks for this suspect."""
    task = suspect.task
    given = {"id": task.id, "lease": task.lease, "worker_id": suspect.worker_id}
    return await (await connection.execute(IS_OLDEST_SUSPECT, given)).fetchone() is not None
