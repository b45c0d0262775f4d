"""Find tasks and pass them to the slots: claim ahead of the slots, sweep due tasks, and rest when nothing is found.

The worker claims ahead as many tasks as the slots finish during one claim: hundreds if a task takes microseconds, one
if it takes seconds. Tasks that were claimed and have not begun are released, and their attempts are not counted, when
the worker stops or stalls, or when they would wait long behind others.

A suspect (a task that has cost two workers) runs alone (suspects.py). The worker claims nothing meanwhile.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from uuid import UUID

from psycopg.errors import LockNotAvailable

from orchestrator import claim, events, execute, notify
from orchestrator.config import Config
from orchestrator.feature import OpenSource
from orchestrator.finish import Outbox
from orchestrator.postgres.session import Session
from orchestrator.postgres.transient_errors import is_transient
from orchestrator.task.claimed import Claimed
from orchestrator.worker.claim_pipeline import ClaimPipeline, ClaimResult
from orchestrator.worker.claim_size import ClaimSize
from orchestrator.worker.feature_claims import FeatureClaims
from orchestrator.worker.idle_wait import IdleWait
from orchestrator.worker.slots import Slots
from orchestrator.worker.suspects import SUSPECT_LOSSES, Suspects
from orchestrator.worker.unknown_types import put_back, types_unknown

# A worker whose slots are all busy for so long needs no ring.
BUSY_SECONDS = 0.1


class Intake:
    """The claiming side of one worker. `look` asks what the database holds in our name. `give_back` ends all running
    attempts and releases their tasks."""

    def __init__(
        self,
        config: Config,
        session: Session,
        *,
        worker_id: UUID,
        slots: Slots,
        outbox: Outbox,
        rest: IdleWait,
        until_empty: bool,
        look: Callable[[], None],
        give_back: Callable[[], Awaitable[None]],
        sources: Sequence[OpenSource] = (),
    ) -> None:
        self._config, self._session, self._slots = config, session, slots
        self._outbox, self._idle = outbox, rest
        self.worker_id, self._until_empty, self._stopping = worker_id, until_empty, False
        self._look, self._claim_size = look, ClaimSize(slots)
        self.claims = ClaimPipeline(session, config.queues)
        take = partial(self._hand_over, first=True)
        self._sources = FeatureClaims(sources, self.claims, slots, config.concurrency, take=take, look=look)
        self._take = self._take_in_turn if sources else self._take_plain
        self._plain_holds, self._marking = True, list[Claimed]()
        self._suspects = Suspects(
            session,
            slots=slots,
            outbox=outbox,
            rest=rest,
            grace_seconds=config.grace_seconds,
            begin=self._begin,
            give_back=give_back,
            is_stopping=lambda: self._stopping,
        )

    async def run(self) -> None:
        """Claim until stop() is called, or until the queues are empty."""
        try:
            while await self._goes_on():
                pass
            while self.claims.is_on:
                await self._claim(0)
        finally:
            if await self.claims.cancel():
                self._look()

    async def _goes_on(self) -> bool:
        """Do the next step, or rest. Return whether to go on."""
        if self._stopping:
            return False
        self._idle.forget()
        was_sent = self.claims.is_on
        await self.mark_running()
        await self._begin_marked_first()
        wanted = self._claim_size.wanted() if self._idle.may_claim and not self._outbox.is_full else 0
        if self._suspects and not self.claims.is_on:
            await self._suspects.advance(self.worker_id)
        elif (not wanted or self._slots.marked_first) and not self.claims.is_on:
            await self._wait_for_room()
        elif await self._take(wanted):
            self._idle.found()
        elif was_sent or self.claims.is_on:
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

    def suspects(self) -> list[Claimed]:
        """Return the suspects, and the tasks that are being marked now. Any thread may call this."""
        return [*self._suspects.held(), *self._marking]

    def give_back(self) -> None:
        """Release tasks that were claimed and have not begun."""
        self._suspects.release(worker_id=self.worker_id)
        self._slots.release_ready()

    def begin_anew(self, worker_id: UUID) -> None:
        """The worker has another id. Tasks that wait here were claimed under the old one, so their leases are lost."""
        self.worker_id = worker_id
        self._suspects.forget()
        self._idle.begin_anew()
        self._idle.wake()

    async def _take_in_turn(self, wanted: int) -> bool:
        """Claim from the sources of features, then the plain way. Return whether any of them may hold more."""
        looks = self._idle.is_rung or self._idle.is_due
        self._plain_holds |= looks
        if not self._is_held_up():
            await self._sources.take(self.worker_id, looks=looks, plain_holds=self._plain_holds)
        wanted = min(wanted, self._claim_size.wanted(), self._sources.leave())
        if wanted or self.claims.is_on:
            self._plain_holds = await self._take_plain(wanted)
        elif self._sources.may_hold_more and not self._sources.free:
            await self._wait_for_room()
        return self._sources.may_hold_more or self._plain_holds

    async def _take_plain(self, wanted: int) -> bool:
        """Sweep tasks that may have become due, then claim. Return whether the queues may hold more."""
        rung = self._idle.take_ring()
        if not rung and self._idle.is_due and not await self._sweep() and not self.claims.is_on:
            # This was a poll, and nothing is ready.
            return False
        # Asked again: the worker may have got another id while it swept.
        found = await self._claim(wanted) if self.claims.is_on or self._idle.may_claim else None
        if found is None:
            return False
        if rung and not found.tasks:
            # The ring was for a scheduled task.
            return await self._sweep()
        return found.may_hold_more

    async def _claim(self, wanted: int) -> ClaimResult | None:
        """Claim, and pass the tasks on. Return the result, or None when the outcome of the claim is unknown."""
        try:
            found = await self.claims.receive(wanted, lambda: self.worker_id, more=self._more)
            if found is None:
                self._look()
                return None
            self._claim_size.claimed(found.tasks, found.seconds)
            if found.tasks:
                self._hand_over(found.tasks, found.worker_id)
        except Exception as error:
            if not is_transient(error):
                raise
            self._look()  # The claim may be committed: its tasks would be ghosts.
            self._idle.look_for_due()
            return None
        finally:
            self.claims.taken_over()
        return found

    def _more(self, coming: int) -> int:
        """Return how many to claim beyond those that the present claim brings."""
        if self._is_held_up() or self._sources.may_hold_more or self.claims.positions.is_costly:
            return 0
        return self._claim_size.wanted(coming=coming)

    def _is_held_up(self) -> bool:
        """Tell whether to claim no more for now."""
        may = self._idle.may_claim and not (self._stopping or self._outbox.is_full)
        return not may or bool(self._suspects or self._slots.marked_first)

    def _hand_over(self, tasks: list[Claimed], worker_id: UUID, *, first: bool = False) -> None:
        self._idle.claimed(len(tasks))
        fresh, marked_first, suspects = [], [], []
        strange = types_unknown(tasks, self._slots.knows)
        for task in tasks:
            if task.type in strange:
                put_back(self._outbox, task, worker_id=worker_id)
            elif not task.payload:
                self._slots.release(task, worker_id=worker_id)  # too large for a claim of so many tasks
            elif not task.is_marked_first:
                fresh.append(task)
            elif task.losses >= SUSPECT_LOSSES:
                suspects.append(task)
            else:
                marked_first.append(task)
        if worker_id != self.worker_id:
            # The worker was declared dead meanwhile. The outbox finds out whether the leases still hold.
            for task in (*fresh, *marked_first, *suspects):
                self._slots.release(task, worker_id=worker_id)
            return
        if suspects:
            self._suspects.take(suspects, worker_id=worker_id)
        if fresh:
            add = partial(self._slots.add_first, marked=False) if first else self._slots.add
            add(fresh, worker_id=worker_id)
        if marked_first:
            self._slots.add_marked_first(marked_first, worker_id=worker_id)
        if marked_first or suspects:
            self._idle.wake()  # They begin at the next turn. Without this it would come only with the next poll.

    async def _begin_marked_first(self) -> None:
        """Mark and begin tasks that may kill workers (is_marked_first), as many as there are slots."""
        if taken := self._slots.take_marked_first():
            # All were claimed under one id: when the id changes, waiting tasks are taken back.
            await self._begin([task for task, _ in taken], taken[0][1])

    async def _begin(self, tasks: list[Claimed], worker_id: UUID) -> None:
        """Mark these running, then let them start."""
        self._marking, work = tasks, partial(execute.begin, tasks=tasks)
        try:
            marked = await self._session.run(work, give_up_on=self._is_stopping)
        finally:
            self._marking = []
        ours = worker_id == self.worker_id
        self._slots.add_first([task for task in tasks if ours and task.id in marked], worker_id=worker_id)
        for task in tasks:
            if not ours or task.id not in marked:
                # Its row is locked, its lease is lost, or the worker was declared dead: the outbox finds out which.
                self._slots.release(task, worker_id=worker_id)

    async def mark_running(self) -> None:
        """Mark attempts `running` that have run for a while."""
        if not (attempts := self._slots.unmarked()):
            return
        work = partial(execute.begin, tasks=[a.task for a, _ in attempts], ages=[age for _, age in attempts])
        try:
            marked = await self._session.run(work, give_up_on=self._is_stopping_or_locked)
        except Exception as error:
            if not is_transient(error):
                raise
        else:
            for attempt, _ in attempts:
                # A locked row is offered again. The next look reports a lost lease.
                attempt.is_marked = attempt.task.id in marked

    async def _sweep(self) -> bool:
        """Sweep due tasks. Return whether anything may be ready in our queues."""
        # Asking whether something is ready costs as much as a claim. Do not ask while tasks are dense or claims costly.
        looks = not (self._idle.is_hot or self.claims.positions.is_costly)
        work = partial(claim.sweep, queues=self._config.queues if looks else ())
        swept = await self._session.run(work, give_up_on=self._is_stopping)
        self._idle.next_due(0.0 if swept.moved >= claim.SWEEP_BATCH_SIZE else swept.next_due_seconds)
        foreign = [queue for queue in swept.queues if queue not in self._config.queues]
        if rings := bool(foreign) or swept.moved > self._slots.free:
            await self._session.run(partial(notify.ring, queues=swept.queues), give_up_on=self._is_stopping)
        if swept.moved:
            events.emit(events.WorkersRung(rings))
        return swept.ready or not looks

    async def _wait_for_room(self) -> None:
        """All slots are busy. When that lasts, remove the mark: this worker needs no ring."""
        marked = self._idle.is_marked
        if not await self._idle.wait_for_room(BUSY_SECONDS if marked else None) and marked:
            await self._mark_idle(0.0)

    async def _wait_while_idle(self) -> None:
        if (seconds := self._idle.mark_seconds()) is not None:
            await self._mark_idle(seconds)
        await self._idle.rest()

    async def _is_empty(self) -> bool:
        held = self._slots.held() or self._outbox.held()
        work = partial(claim.remaining, queues=self._config.queues)
        return not held and not await self._session.run(work, give_up_on=self._is_stopping)

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
