"""Gather outcomes and send them in batches, as long as it takes.

Batches form by themselves: what is put while one is on its way goes with the next; a single outcome goes out at
once. Whatever happens to the database, an outcome is held until it is written or known to be stale.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from uuid import UUID

import psycopg
from psycopg import errors

from orchestrator import events
from orchestrator.finish.announce import announce
from orchestrator.finish.record import record, record_unlocked, written_before
from orchestrator.postgres.session import Connection, Session
from orchestrator.task.model import Claimed
from orchestrator.task.outcome import Buried, Failed, Fault, Outcome, PutBack, Snoozed

BATCH_SIZE = 500

# Waiting behind somebody's locks: the batch goes again without the locked rows, these after a while.
LOCKED = (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure)
LOCKED_WAIT_SECONDS = 0.005
LOCKED_WAIT_SECONDS_MAX = 1.0

REFUSED = "OutcomeRefused"


class Outbox:
    """The outcomes of one worker on their way into the database. `put_off` is called when one that waits for a
    later time has been written."""

    def __init__(self, session: Session, *, limit: int, put_off: Callable[[], None]) -> None:
        self._session = session
        self._limit = limit
        self._put_off = put_off
        self._waiting: list[tuple[UUID, Outcome]] = []
        self._sending: list[tuple[UUID, Outcome]] = []
        self._changed = asyncio.Condition()

    async def run(self) -> None:
        """Send what is put, for ever; `flush` before cancelling it, to lose nothing."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: bool(self._waiting))
                worker_id = self._waiting[0][0]
                # One worker id a batch; it changes only when we were declared dead.
                batch = self._waiting[:BATCH_SIZE]
                self._sending = list(takewhile(partial(sent_by, worker_id), batch))
                del self._waiting[: len(self._sending)]
                self._changed.notify_all()
            await self._send([outcome for _, outcome in self._sending], worker_id)
            if any(isinstance(outcome.end, Failed | Snoozed | PutBack) for _, outcome in self._sending):
                self._put_off()
            async with self._changed:
                self._sending = []
                self._changed.notify_all()

    async def put(self, outcome: Outcome, *, worker_id: UUID) -> None:
        """Hand an outcome over; waits while the outbox is full."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self._waiting) < self._limit)
            self._waiting.append((worker_id, outcome))
            self._changed.notify_all()

    async def flush(self) -> None:
        """Wait until everything put so far is written."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._waiting and not self._sending)

    def held(self) -> list[Claimed]:
        """Return the tasks whose outcomes are not written yet."""
        return [outcome.task for _, outcome in (*self._waiting, *self._sending)]

    async def _send(self, batch: Sequence[Outcome], worker_id: UUID) -> None:
        """Write a batch, whatever it takes. Ends: a round writes, or waits for somebody's lock to be let go."""
        wait_seconds = LOCKED_WAIT_SECONDS
        wary = False
        while batch:
            work = partial(write, outcomes=batch, worker_id=worker_id, wary=wary)
            try:
                batch = await self._session.run(work, give_up_on=is_locked)
            except LOCKED:
                pass
            except (errors.DataError, errors.IntegrityError) as error:
                await self._send_singly(batch, worker_id, error)
                return
            if batch:
                wary = True
                await asyncio.sleep(wait_seconds)
                wait_seconds = min(wait_seconds * 2, LOCKED_WAIT_SECONDS_MAX)

    async def _send_singly(self, batch: Sequence[Outcome], worker_id: UUID, error: psycopg.Error) -> None:
        """One of these cannot be stored: find it, and bury its task with that as the reason."""
        if len(batch) > 1:
            for outcome in batch:
                await self._send([outcome], worker_id)
            return
        (outcome,) = batch
        match outcome.end:
            case Buried(Fault(class_name), _) if class_name == REFUSED:
                events.emit(events.StaleOutcome(outcome.task.id, outcome.task.type, outcome.task.queue))
            case _:
                # The primary message alone: DETAIL and parameters may hold the result.
                fault = Fault(REFUSED, f"PostgreSQL refused the outcome: {error.diag.message_primary}")
                await self._send([Outcome(outcome.task, Buried(fault, "discarded"))], worker_id)


async def write(
    connection: Connection, *, outcomes: Sequence[Outcome], worker_id: UUID, wary: bool
) -> Sequence[Outcome]:
    """Write once and say what came of it; return what somebody's locks kept out."""
    left: Sequence[Outcome] = ()
    if wary:
        accepted, left = await record_unlocked(connection, outcomes, worker_id=worker_id)
    else:
        accepted = await record(connection, outcomes, worker_id=worker_id)
    locked = {outcome.task.id for outcome in left}
    done = [outcome for outcome in outcomes if outcome.task.id not in locked]
    refused = [outcome for outcome in done if outcome.task.id not in accepted]
    # An earlier try may have got through although its answer did not.
    accepted |= await written_before(connection, refused) if refused else set()
    for outcome in done:
        if outcome.task.id in accepted:
            announce(outcome)
        else:
            events.emit(events.StaleOutcome(outcome.task.id, outcome.task.type, outcome.task.queue))
    return left


def sent_by(worker_id: UUID, pair: tuple[UUID, Outcome]) -> bool:
    return pair[0] == worker_id


def is_locked(error: Exception) -> bool:
    return isinstance(error, LOCKED)
