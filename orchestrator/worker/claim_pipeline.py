"""The claims on their way. When a claim's answer arrives, the next claim is sent before that answer is read, so the
server works while the worker reads.

Tasks belong to this worker when the claim commits, but it has them only after it has read the answer. In between they
look like ghosts and must not be released as such. So each claim has its own lease, and its tasks are recognised by that
lease until they are passed on.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from orchestrator import claim, events
from orchestrator.feature import OpenSource
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
    """The tasks that a claim has found, under which worker id, and whether the queues may hold more."""

    tasks: list[Claimed]
    worker_id: UUID
    seconds: float
    may_hold_more: bool


class ClaimPipeline:
    """The claims of one worker."""

    def __init__(self, session: Session, queues: tuple[str, ...]) -> None:
        self._session = session
        self._queues = queues
        self._shares = claim.Shares(queues)
        self.positions = claim.ScanPositions()
        self._next: SentClaim | None = None
        self._receiving: int | None = None
        # The leases of claims on their way, or whose tasks are just being passed on.
        self._leases: set[int] = set()
        # The same leases until they are taken: by the loop, when an answer arrives, or by another thread, which then
        # releases the tasks that the claim has found. A list, since pop and remove let only one of the two get each.
        self._to_take: list[int] = []
        self._abandoned: set[int] = set()

    @property
    def is_on(self) -> bool:
        """Whether a claim was sent and `receive` has not been called for it."""
        return self._next is not None

    async def receive(
        self, wanted: int, worker_id: Callable[[], UUID], *, more: Callable[[int], int]
    ) -> ClaimResult | None:
        """Return the result of the claim on its way, or else of a new one for `wanted` tasks. None: another thread has
        taken it. `more` returns how many to claim beyond those that are coming. Always call `taken_over` after this."""
        sent_claim = self._next or self._send(wanted, worker_id())
        self._next, self._receiving = None, sent_claim.lease
        answer = await sent_claim.answer
        if answer.count >= sent_claim.wanted and (wanted := more(answer.count)):
            self._next = self._send(wanted, worker_id())
            self._next.answer = sent = asyncio.ensure_future(self._next.answer)
            # Read its result, since a worker that stops never does.
            sent.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
            # Let it be sent now.
            await asyncio.sleep(0)
        tasks = await answer.tasks(round_trip_seconds=self._session.round_trip_seconds)
        may_hold_more = self._shares.learn(sent_claim.shares, tasks, wanted=sent_claim.wanted)
        tasks = claim.in_turn(tasks, (share.queue for share in sent_claim.shares))
        return self._taken(
            sent_claim.lease, ClaimResult(tasks, sent_claim.worker_id, answer.seconds, may_hold_more)
        )

    async def receive_from(self, source: OpenSource, wanted: int, worker_id: UUID) -> ClaimResult | None:
        """The same from a feature's source. Always call `taken_over` after this."""
        lease = self._receiving = self._new_lease()
        begun_at = time.monotonic()
        tasks = await source.claim(lease=lease, worker_id=worker_id, queues=self._queues, batch_size=wanted)
        seconds = time.monotonic() - begun_at
        return self._taken(lease, ClaimResult(tasks, worker_id, seconds, len(tasks) >= wanted))

    def _taken(self, lease: int, found: ClaimResult) -> ClaimResult | None:
        """Take a claim's tasks, unless another thread has taken them."""
        if events.wanted(events.ClaimAnswered):
            events.emit(events.ClaimAnswered(len(found.tasks), found.seconds))
        with suppress(ValueError):
            self._to_take.remove(lease)
            return found
        return None

    def taken_over(self) -> None:
        """The received tasks have been passed on, or there were none."""
        if (lease := self._receiving) is not None:
            self._leases.discard(lease)
            with suppress(ValueError):
                self._to_take.remove(lease)
            self._abandoned.discard(lease)

    async def cancel(self) -> bool:
        """Cancel the claim on its way. Return whether there was one: tasks that it may have found are ghosts now."""
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
        """Tell whether a task belongs to a claim whose tasks have not been passed on."""
        return task.lease in self._leases

    def abandon(self) -> set[int]:
        """Abandon the claims and return their leases. The caller releases the tasks that they have found; their answers
        are ignored. For another thread, while the loop is blocked."""
        with suppress(IndexError):
            while True:  # ends: the list is empty
                self._abandoned.add(self._to_take.pop())
        return self._abandoned.copy()

    def _send(self, wanted: int, worker_id: UUID) -> SentClaim:
        lease = self._new_lease()
        shares = self._shares.of(wanted)
        work = partial(
            claim.batch,
            lease=lease,
            worker_id=worker_id,
            queues=[share.queue for share in shares],
            batch_size=wanted,
            # One queue needs no limit, and the statement is cheaper without one.
            limits=[share.limit for share in shares] if len(shares) > 1 else None,
            positions=self.positions,
        )
        return SentClaim(wanted, shares, lease, worker_id, self._session.run(work, give_up_on=always))

    def _new_lease(self) -> int:
        lease = claim.new_lease()
        self._leases.add(lease)
        self._to_take.append(lease)
        return lease


def always(_error: Exception) -> bool:
    return True
