"""Find tasks and pass them to the slots: claim ahead of the slots, sweep due tasks, and rest when nothing is found.

The worker claims ahead as many tasks as the slots finish during one claim: hundreds if a task takes microseconds, one
if it takes seconds. Tasks that were claimed and have not begun are released, and their attempts are not counted, when
the worker stops or stalls, or when they would wait long behind others.

A suspect (a task that has cost two workers) runs alone (suspects.py). The worker claims nothing meanwhile.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter
from uuid import UUID

from psycopg.errors import LockNotAvailable

from orchestrator import claim, events, execute, notify
from orchestrator.config import Config
from orchestrator.execute.unknown_type import put_back
from orchestrator.feature import OpenSource
from orchestrator.finish import Outbox
from orchestrator.notify.idle_wait import IdleWait
from orchestrator.postgres.session import Session
from orchestrator.postgres.transient_errors import is_transient
from orchestrator.task.outcome import RELEASED, Outcome
from orchestrator.worker.claim_pipeline import ClaimPipeline, ClaimResult
from orchestrator.worker.claim_size import ClaimSize
from orchestrator.worker.feature_claims import FeatureClaims
from orchestrator.worker.ledger import MARK_AGAIN_SECONDS, Ledger
from orchestrator.worker.slots import Slots
from orchestrator.worker.suspects import SUSPECT_LOSSES, Suspects

# A worker whose slots are all busy for so long needs no ring.
BUSY_SECONDS = 0.1

TYPE = attrgetter("type")


class Intake:
    """The claiming side of one worker. `look` asks what the database holds in our name. `give_back` ends all running
    attempts and releases their tasks."""

    def __init__(
        self,
        config: Config,
        session: Session,
        *,
        worker_id: UUID,
        ledger: Ledger,
        slots: Slots,
        outbox: Outbox,
        rest: IdleWait,
        until_empty: bool,
        look: Callable[[], None],
        give_back: Callable[[], Awaitable[None]],
        sources: Sequence[OpenSource] = (),
    ) -> None:
        self._config, self._session, self._ledger, self._slots = config, session, ledger, slots
        self._outbox, self._idle = outbox, rest
        self.worker_id, self._until_empty, self._stopping = worker_id, until_empty, False
        self._look, self._claim_size = look, ClaimSize(ledger)
        self._claims = ClaimPipeline(session, config.queues, ledger)
        take = partial(self._hand_over, first=True)
        self._sources = FeatureClaims(sources, self._claims, ledger, take=take, look=look)
        self._take = self._take_in_turn if sources else self._take_plain
        self._plain_holds = True
        self._suspects = Suspects(
            session,
            ledger=ledger,
            outbox=outbox,
            rest=rest,
            grace_seconds=config.grace_seconds,
            slots=slots,
            mark_running=self.mark_running,
            give_back=give_back,
            is_stopping=lambda: self._stopping,
        )

    async def run(self) -> None:
        """Claim until stop() is called, or until the queues are empty."""
        try:
            while await self._goes_on():
                pass
            while self._claims.is_on:
                await self._claim(0)
        finally:
            if await self._claims.cancel():
                self._look()

    async def _goes_on(self) -> bool:
        """Do the next step, or rest. Return whether to go on."""
        if self._stopping:
            return False
        self._idle.forget()
        was_sent = self._claims.is_on
        await self.mark_running()
        wanted = self._claim_size.wanted() if self._idle.may_claim and not self._outbox.is_full else 0
        if self._suspects and not self._claims.is_on:
            await self._suspects.advance()
        elif not wanted and not self._claims.is_on:
            await self._wait_for_room()
        elif await self._take(wanted):
            self._idle.found()
        elif was_sent or self._claims.is_on:
            # The claim was sent before the event that may have woken us, or its answer is not read yet: ask again.
            pass
        elif self._until_empty and await self._is_empty():
            return False
        else:
            await self._wait_while_idle()
        return True

    def stop(self) -> None:
        """Claim no more. The claiming ends with the statement that runs now, or at once if the database is away."""
        self._stopping = True
        self._idle.wake()

    def put_away_suspect(self) -> None:
        """Release the suspect, if there is one."""
        self._suspects.put_away()

    def begin_anew(self, worker_id: UUID, *, given_away: bool) -> None:
        """The worker has another id. A suspect was claimed under the old one: its lease is lost, or may be."""
        self.worker_id = worker_id
        if given_away and (suspect := self._suspects.forget()) is not None:
            self._ledger.leave((suspect,))
        self._suspects.put_away()
        self._idle.begin_anew()
        self._idle.wake()

    async def _take_in_turn(self, wanted: int) -> bool:
        """Claim from the sources of features, then the plain way. Return whether any of them may hold more."""
        looks = self._idle.is_rung or self._idle.is_due
        self._plain_holds |= looks
        if not self._is_held_up():
            await self._sources.take(self.worker_id, looks=looks, plain_holds=self._plain_holds)
        wanted = min(wanted, self._claim_size.wanted(), self._sources.leave())
        if wanted or self._claims.is_on:
            self._plain_holds = await self._take_plain(wanted)
        elif self._sources.may_hold_more and not self._sources.free:
            await self._wait_for_room()
        return self._sources.may_hold_more or self._plain_holds

    async def _take_plain(self, wanted: int) -> bool:
        """Sweep tasks that may have become due, then claim. Return whether the queues may hold more."""
        rung = self._idle.take_ring()
        if not rung and self._idle.is_due and not await self._sweep() and not self._claims.is_on:
            # This was a poll, and nothing is ready.
            return False
        # Asked again: the worker may have got another id while it swept.
        found = await self._claim(wanted) if self._claims.is_on or self._idle.may_claim else None
        if found is None:
            return False
        if rung and not found.tasks:
            # The ring was for a scheduled task.
            return await self._sweep()
        return found.may_hold_more

    async def _claim(self, wanted: int) -> ClaimResult | None:
        """Claim, and pass the tasks on. Return the result, or None when the outcome of the claim is unknown."""
        try:
            found = await self._claims.receive(wanted, lambda: self.worker_id, more=self._more)
        except Exception as error:
            if not is_transient(error):
                raise
            self._look()  # The claim may be committed: its tasks would be ghosts.
            self._idle.look_for_due()
            return None
        self._claim_size.claimed(found.tasks, found.seconds)
        if self._hand_over(found):
            return found
        self._look()
        return None

    def _more(self, coming: int) -> int:
        """Return how many to claim beyond those that the present claim brings."""
        if self._is_held_up() or self._sources.may_hold_more or self._claims.positions.is_costly:
            return 0
        return self._claim_size.wanted(coming=coming)

    def _is_held_up(self) -> bool:
        """Tell whether to claim no more for now."""
        may = self._idle.may_claim and not (self._stopping or self._outbox.is_full)
        return not may or bool(self._suspects)

    def _hand_over(self, found: ClaimResult, *, first: bool = False) -> bool:
        """Pass the tasks of a claim on: most of them wait for a slot. Return False if another thread has taken them."""
        if events.wanted(events.ClaimAnswered):
            events.emit(events.ClaimAnswered(len(found.tasks), found.seconds))
        if not found.tasks:
            return self._ledger.arrive(found.lease, ())
        self._idle.claimed(len(found.tasks))
        now = time.monotonic()
        handlers = {kind: self._slots.handler_of(kind) for kind in set(map(TYPE, found.tasks))}
        is_ours = found.worker_id == self.worker_id
        attempts, others, suspects = [], [], []
        for task in found.tasks:
            if (handler := handlers[task.type]) is None or not (task.payload and is_ours):
                others.append(Outcome(task, taken_at=now, worker_id=found.worker_id))
                continue
            attempt = self._slots.attempt(task, handler, found.worker_id, now)
            if task.losses >= SUSPECT_LOSSES:
                suspects.append(attempt)
            else:
                attempts.append(attempt)
        if not self._ledger.arrive(found.lease, [*attempts, *others, *suspects]):
            return False
        for other in others:
            # Of an unknown type, too large for a claim of so many, or claimed under an old id: the lease fences this.
            unknown = handlers[other.task.type] is None
            self._ledger.write(other, put_back(other) if unknown else RELEASED)
        if suspects:
            self._suspects.take(suspects)
            self._idle.wake()  # It begins at the next turn. Without this that would come only with the next poll.
        self._ledger.line_up(attempts, first=first)
        self._slots.wake_one()
        return True

    async def mark_running(self) -> None:
        """Mark attempts `running` that have run for a while, and those that must be marked before they start."""
        if not (attempts := self._ledger.unmarked()):
            return
        now = time.monotonic()
        for attempt in attempts:
            attempt.mark_at = now + MARK_AGAIN_SECONDS
        ages = [now - (attempt.begun_at or now) for attempt in attempts]
        work = partial(execute.begin, tasks=[attempt.task for attempt in attempts], ages=ages)
        try:
            marked = await self._session.run(work, give_up_on=self._is_stopping_or_locked)
        except Exception as error:
            if not is_transient(error):
                raise
        else:
            # A locked row is offered again, unless its attempt has not started. The next look reports a lost lease.
            self._slots.marked(attempts, marked)

    async def _sweep(self) -> bool:
        """Sweep due tasks. Return whether anything may be ready in our queues."""
        # Asking whether something is ready costs as much as a claim. Do not ask while tasks are dense or claims costly.
        looks = not (self._idle.is_hot or self._claims.positions.is_costly)
        work = partial(claim.sweep, queues=self._config.queues if looks else ())
        swept = await self._session.run(work, give_up_on=self._is_stopping)
        self._idle.next_due(0.0 if swept.moved >= claim.SWEEP_BATCH_SIZE else swept.next_due_seconds)
        foreign = [queue for queue in swept.queues if queue not in self._config.queues]
        if rings := bool(foreign) or swept.moved > self._ledger.free:
            await self._session.run(partial(notify.ring, queues=swept.queues), give_up_on=self._is_stopping)
        if swept.moved:
            events.emit(events.WorkersRung(rings))
        return swept.ready or not looks

    async def _wait_for_room(self) -> None:
        """No claim is wanted now. When that lasts, remove the mark: this worker needs no ring."""
        marked = self._idle.is_marked
        if not await self._idle.wait_for_room(BUSY_SECONDS if marked else None) and marked:
            await self._mark_idle(0.0)

    async def _wait_while_idle(self) -> None:
        if (seconds := self._idle.mark_seconds()) is not None:
            await self._mark_idle(seconds)
        await self._idle.rest()

    async def _is_empty(self) -> bool:
        work = partial(claim.remaining, queues=self._config.queues)
        return self._ledger.is_empty and not await self._session.run(work, give_up_on=self._is_stopping)

    async def _mark_idle(self, seconds: float) -> None:
        """Write or remove the mark that asks for rings. It is a hint, so do not wait for a lock on our row."""
        worker_id = self.worker_id
        work = partial(notify.idle, worker_id=worker_id, seconds=seconds)
        with suppress(LockNotAvailable):
            written = await self._session.run(work, give_up_on=self._is_stopping_or_locked)
            # The worker may have got another id meanwhile, whose row has no mark.
            if written and worker_id == self.worker_id:
                self._idle.marked(seconds)

    def _is_stopping_or_locked(self, error: Exception) -> bool:
        return self._stopping or isinstance(error, LockNotAvailable)

    def _is_stopping(self, _error: Exception) -> bool:
        """Whether a transient error ends the claiming: it does after stop()."""
        return self._stopping
