"""Gather outcomes and send them in batches, as long as it takes.

Batches form by themselves: outcomes that are put while one batch is on its way go with the next. A single outcome goes
out at once. Whatever happens to the database, the outbox holds an outcome until it is written or known to be stale. All
held outcomes count against the limit, and one that waits for another transaction's lock keeps no other waiting.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

import psycopg
from psycopg import errors

from orchestrator import events
from orchestrator.finish.announce import announce
from orchestrator.finish.lease_ends import LeaseEnds
from orchestrator.finish.record import record, record_lost, record_unlocked, written_before
from orchestrator.postgres import transient_errors
from orchestrator.postgres.session import Connection, Session
from orchestrator.task.outcome import Completed, DeadLettered, Failed, Fault, Outcome

# Each statement has a fixed price, and each commit a flush: so a batch is large.
BATCH_SIZE = 2000
BATCH_BYTES = 8_000_000
# The most bytes of results that wait to be written, in all.
BYTES_MAX = 64_000_000

# Behind another transaction's locks: the batch goes again without the locked rows, and these go again after this wait.
LOCKED_WAIT_SECONDS = 0.005
LOCKED_WAIT_SECONDS_MAX = 1.0

REFUSED = "OutcomeRefused"


class Outbox:
    """The outcomes of one worker on their way into the database. It calls `put_off` after it has written an outcome
    whose task waits again, `room` after it has written any, and `ended` after leases ended that held permits or fed
    gates. The ledger sets `written`, and learns which outcomes are written or stale.

        put ──► waiting ──► sending ──► written, or stale
                   ▲           │
                   └── locked ◄┘   another transaction's lock is in the way: again after a while, the others go on
    """

    def __init__(
        self,
        session: Session,
        *,
        limit: int,
        put_off: Callable[[], None],
        room: Callable[[], None] = lambda: None,
        ended: Callable[[LeaseEnds], None] = lambda _ends: None,
    ) -> None:
        self._session = session
        self._limit = limit
        self._put_off = put_off
        self._room = room
        self.written: Callable[[Sequence[Outcome]], None] = lambda _outcomes: None
        self._ended = ended
        self._waiting: list[Outcome] = []
        self._locked: list[Outcome] = []
        self._bytes = 0
        self.count = 0  # how many outcomes are held
        self.is_full = False  # they are so many, or so large, that no new attempt should begin
        self._puts_off = False  # some waiting outcome makes its task wait again
        self._locked_until = 0.0
        self._locked_wait_seconds = LOCKED_WAIT_SECONDS
        self._put = asyncio.Event()
        self._sent = asyncio.Event()

    async def run(self) -> None:
        """Send what is put, for ever. Call `flush` before cancelling it, to lose nothing."""
        while True:
            # One lock may mean more of them: a plain batch would wait lock_timeout for each.
            wary = bool(self._locked)
            await self._work()
            size = self._batch_size()
            outcomes, self._waiting = self._waiting[:size], self._waiting[size:]
            puts_off, self._puts_off = self._puts_off, self._puts_off and bool(self._waiting)
            left = await self._send(outcomes, outcomes[0].worker_id, wary=wary)
            if puts_off:
                self._put_off()
                self._puts_off = self._puts_off or bool(left)
            self._put_aside(left)
            if self._bytes:
                self._bytes -= sum(map(weight, outcomes)) - sum(map(weight, left))
            self.count -= len(outcomes) - len(left)
            self._measure()
            self._sent.set()
            if left:
                kept = set(map(id, left))
                outcomes = [o for o in outcomes if id(o) not in kept]
            self.written(outcomes)
            self._room()

    async def _work(self) -> None:
        """Wait for something to send: a new outcome, or the moment to try the locked ones again."""
        while not self._waiting:
            self._put.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._locked_until if self._locked else None):
                    await self._put.wait()
            if self._locked and asyncio.get_running_loop().time() >= self._locked_until:
                break
        if not self._waiting or asyncio.get_running_loop().time() >= self._locked_until:
            self._waiting[:0] = self._locked
            self._locked = []

    def _batch_size(self) -> int:
        """Return how many waiting outcomes go with the next statement. They have one worker id, which changes only when
        we were declared dead; not too many bytes; and there is one for each task, since answers name tasks. There are
        two for a task if a server crash forgot a claim and we ran the task again: the first one is stale."""
        batch = self._waiting[:BATCH_SIZE]
        worker_id = batch[0].worker_id
        ids = {outcome.task.id for outcome in batch}
        if batch[-1].worker_id is worker_id and self._bytes <= BATCH_BYTES and len(ids) == len(batch):
            return len(batch)
        size = total = 0
        # Ends with the batch. One outcome goes in any case.
        for outcome in batch:
            total += weight(outcome)
            if outcome.worker_id != worker_id or outcome.task.id not in ids or (size and total > BATCH_BYTES):
                break
            ids.remove(outcome.task.id)
            size += 1
        return size

    def _put_aside(self, left: Sequence[Outcome]) -> None:
        if left and not self._locked:
            self._locked_until = asyncio.get_running_loop().time() + self._locked_wait_seconds
            self._locked_wait_seconds = min(self._locked_wait_seconds * 2, LOCKED_WAIT_SECONDS_MAX)
        self._locked += left
        if not self._locked:
            self._locked_wait_seconds = LOCKED_WAIT_SECONDS

    def put(self, outcome: Outcome) -> None:
        """Take an outcome. Never refuses one; a worker whose outbox is full begins no new attempt."""
        if not self._waiting:
            self._put.set()
        self._waiting.append(outcome)
        self.count += 1
        end = outcome.end
        if type(end) is not Completed:
            self._puts_off = True
            self._bytes += weight(outcome)
        elif end.result is not None:
            self._bytes += len(end.result)
        elif self.count < self._limit:
            return
        self._measure()

    def _measure(self) -> None:
        self.is_full = self.count >= self._limit or self._bytes >= BYTES_MAX

    async def flush(self) -> None:
        """Wait until everything put so far is written."""
        while self.count:
            self._sent.clear()
            await self._sent.wait()

    async def _send(
        self, batch: Sequence[Outcome], worker_id: UUID, *, wary: bool = False
    ) -> Sequence[Outcome]:
        """Write a batch, however often the connection breaks; return the outcomes whose rows are locked."""
        for careful in (wary, True):
            work = partial(write, outcomes=batch, worker_id=worker_id, wary=careful)
            try:
                left, ends = await self._session.run(work, give_up_on=is_locked)
            except transient_errors.IN_THE_WAY:
                continue
            except (errors.DataError, errors.IntegrityError) as error:
                return await self._send_singly(batch, worker_id, error)
            if ends:
                self._ended(ends)
            return left
        # The batch without locked rows waits too: so the table is locked.
        return batch

    async def _send_singly(
        self, batch: Sequence[Outcome], worker_id: UUID, error: psycopg.Error
    ) -> Sequence[Outcome]:
        """Find the outcome that cannot be stored, and make its task a dead letter, with that as the reason."""
        if len(batch) > 1:
            return [left for outcome in batch for left in await self._send([outcome], worker_id, wary=True)]
        (outcome,) = batch
        match outcome.end:
            case DeadLettered(Fault(class_name), _) if class_name == REFUSED:
                events.emit(events.StaleOutcome(outcome.task.id, outcome.task.type, outcome.task.queue))
                return ()
            case _:
                self._bytes -= weight(outcome)
                # Only the primary message: DETAIL and parameters may hold the result.
                fault = Fault(REFUSED, f"PostgreSQL refused the outcome: {error.diag.message_primary}")
                outcome.end = DeadLettered(fault, "discarded")
                self._bytes += weight(outcome)
                return await self._send(batch, worker_id)


async def write(
    connection: Connection, *, outcomes: Sequence[Outcome], worker_id: UUID, wary: bool
) -> tuple[Sequence[Outcome], LeaseEnds]:
    """Write once, and emit the events; return the outcomes whose rows are locked, and what the others have ended."""
    left: Sequence[Outcome] = ()
    begun_at = time.monotonic()
    if wary:
        (refused, ends), left = await record_unlocked(connection, outcomes, worker_id=worker_id)
    else:
        refused, ends = await record(connection, outcomes, worker_id=worker_id)
    emit_events = partial(announce, worker_id=worker_id, took_seconds=time.monotonic() - begun_at)
    if not refused and not left:
        emit_events(outcomes)
        return (), ends
    # An earlier try may have been committed although its answer was lost.
    if refused:
        refused -= await written_before(connection, [o for o in outcomes if o.task.id in refused])
        # These outcomes are stale; record that their handlers ran.
        await record_lost(connection, [o for o in outcomes if o.task.id in refused], worker_id=worker_id)
    locked = {outcome.task.id for outcome in left}
    emit_events([o for o in outcomes if o.task.id not in locked and o.task.id not in refused])
    for outcome in outcomes:
        if outcome.task.id in refused:
            events.emit(events.StaleOutcome(outcome.task.id, outcome.task.type, outcome.task.queue))
    return left, ends


def weight(outcome: Outcome) -> int:
    """Return how many characters of result or traceback an outcome carries. Its other fields are short."""
    match outcome.end:
        case Completed(None):
            return 0
        case Completed(str(result)):
            return len(result)
        case Failed(fault) | DeadLettered(fault):
            return len(fault.message) + len(fault.traceback)
        case _:
            return 0


def is_locked(error: Exception) -> bool:
    return isinstance(error, transient_errors.IN_THE_WAY)
