"""The claims that are on their way: one, and as soon as its answer is there, and before that is read, the next. So the
server works while we read.

Tasks are ours from the moment a claim commits, and in our hands only when its answer was read. What is ours and in
nobody's hands would be given back as a ghost, so the two must not be confused: each claim has a lease of its own, and
until its tasks are handed over they are known by that.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from orchestrator import claim, events
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed


@dataclass(slots=True)
class SentClaim:
    """One claim."""

    wanted: int
    shares: list[claim.Share]
    lease: int
    worker_id: UUID
    answer: Awaitable[claim.Answer]


class ClaimResult(NamedTuple):
    """What a claim has found, in the name of a worker; and whether the queues may hold more."""

    tasks: list[Claimed]
    worker_id: UUID
    seconds: float
    may_hold_more: bool


class ClaimPipeline:
    """The claims of one worker."""

    def __init__(self, session: Session, queues: tuple[str, ...]) -> None:
        self._session = session
        self._shares = claim.Shares(queues)
        self.positions = claim.ScanPositions()
        self._next: SentClaim | None = None
        self._receiving: int | None = None
        # The leases of what is on its way, or just being handed over.
        self._leases: set[int] = set()
        # The same leases until somebody takes them: the loop, when an answer is there, or another thread, which then
        # gives back what the claim has found. A list, since one of the two gets it and never both.
        self._to_take: list[int] = []
        self._abandoned: set[int] = set()

    @property
    def is_on(self) -> bool:
        """Whether a claim was sent whose answer nobody has asked for yet."""
        return self._next is not None

    async def receive(
        self, wanted: int, worker_id: Callable[[], UUID], *, more: Callable[[int], int]
    ) -> ClaimResult | None:
        """Return what the claim has found that is on its way, or else one for so many; None when another thread has
        taken it. `more` tells how many to ask for beyond those that are coming. Whatever happens, say `taken_over`."""
        sent_claim = self._next or self._send(wanted, worker_id())
        self._next, self._receiving = None, sent_claim.lease
        answer = await sent_claim.answer
        if answer.count >= sent_claim.wanted and (wanted := more(answer.count)):
            self._next = self._send(wanted, worker_id())
            self._next.answer = sent = asyncio.ensure_future(self._next.answer)
            # Who stops need not ask how it went.
            sent.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
            # It leaves now.
            await asyncio.sleep(0)
        tasks = await answer.tasks(round_trip_seconds=self._session.round_trip_seconds)
        may_hold_more = self._shares.learn(sent_claim.shares, tasks, wanted=sent_claim.wanted)
        tasks = claim.in_turn(tasks, (share.queue for share in sent_claim.shares))
        if events.wanted(events.ClaimAnswered):
            events.emit(events.ClaimAnswered(len(tasks), answer.seconds))
        with suppress(ValueError):
            self._to_take.remove(sent_claim.lease)
            return ClaimResult(tasks, sent_claim.worker_id, answer.seconds, may_hold_more)
        return None

    def taken_over(self) -> None:
        """What has landed is in somebody's hands, or nothing has."""
        if (lease := self._receiving) is not None:
            self._leases.discard(lease)
            with suppress(ValueError):
                self._to_take.remove(lease)
            self._abandoned.discard(lease)

    async def cancel(self) -> bool:
        """Ask for nothing of what is on its way any more. Tell whether there was a claim that may have found tasks:
        these are ghosts now, for others to find."""
        sent_claim, self._next = self._next, None
        if sent_claim is None:
            return False
        self._receiving = sent_claim.lease
        self.taken_over()
        sent = asyncio.ensure_future(sent_claim.answer)
        sent.cancel()
        await asyncio.wait({sent})
        return True

    def is_receiving(self, task: Claimed) -> bool:
        """Tell whether a task was found by a claim that has not been handed over."""
        return task.lease in self._leases

    def abandon(self) -> set[int]:
        """Give up the claims, and return their leases: the caller gives back what they have found, and nobody looks at
        their answers. For another thread, while the loop is blocked."""
        with suppress(IndexError):
            while True:  # ends: the list does
                self._abandoned.add(self._to_take.pop())
        return self._abandoned.copy()

    def _send(self, wanted: int, worker_id: UUID) -> SentClaim:
        lease = claim.new_lease()
        shares = self._shares.of(wanted)
        work = partial(
            claim.batch,
            lease=lease,
            worker_id=worker_id,
            queues=[share.queue for share in shares],
            batch_size=wanted,
            # One queue needs no limit, and a statement is cheaper with less to read.
            limits=[share.limit for share in shares] if len(shares) > 1 else None,
            positions=self.positions,
        )
        self._leases.add(lease)
        self._to_take.append(lease)
        return SentClaim(wanted, shares, lease, worker_id, self._session.run(work, give_up_on=always))


def always(_error: Exception) -> bool:
    return True
