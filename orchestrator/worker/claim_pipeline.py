"""The claims on their way. When a claim's answer arrives, the next claim is sent before that answer is read, so the
server works while the worker reads.

Tasks belong to this worker when the claim commits, but it has them only after it has read the answer. So each claim has
its own lease, which the ledger expects until then.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from uuid import UUID

from orchestrator import claim
from orchestrator.feature import OpenSource
from orchestrator.postgres.session import Session
from orchestrator.task.claimed import Claimed
from orchestrator.worker.ledger import Ledger


@dataclass(slots=True)
class SentClaim:
    """One claim."""

    wanted: int
    shares: list[claim.Share]
    lease: int
    worker_id: UUID
    answer: Awaitable[claim.Answer]


class ClaimResult(NamedTuple):
    """The tasks that a claim has found, under which lease and worker id, and whether the queues may hold more. Always
    let them arrive in the ledger."""

    tasks: list[Claimed]
    lease: int
    worker_id: UUID
    seconds: float
    may_hold_more: bool


class ClaimPipeline:
    """The claims of one worker."""

    def __init__(self, session: Session, queues: tuple[str, ...], ledger: Ledger) -> None:
        self._session = session
        self._queues = queues
        self._ledger = ledger
        self._shares = claim.Shares(queues)
        self.positions = claim.ScanPositions()
        self._next: SentClaim | None = None

    @property
    def is_on(self) -> bool:
        """Whether a claim was sent and `receive` has not been called for it."""
        return self._next is not None

    async def receive(
        self, wanted: int, worker_id: Callable[[], UUID], *, more: Callable[[int], int]
    ) -> ClaimResult:
        """Return the result of the claim on its way, or else of a new one for `wanted` tasks. `more` returns how many
        to claim beyond those that are coming."""
        sent_claim, self._next = self._next or self._send(wanted, worker_id()), None
        try:
            answer = await sent_claim.answer
            if answer.count >= sent_claim.wanted and (wanted := more(answer.count)):
                self._next = self._send(wanted, worker_id())
                self._next.answer = sent = asyncio.ensure_future(self._next.answer)
                # Read its result, since a worker that stops never does.
                sent.add_done_callback(lambda sent: sent.cancelled() or sent.exception())
                # Let it be sent now.
                await asyncio.sleep(0)
            tasks = await answer.tasks(round_trip_seconds=self._session.round_trip_seconds)
        except BaseException:
            self._ledger.expect_no_more(sent_claim.lease)
            raise
        may_hold_more = self._shares.learn(sent_claim.shares, tasks, wanted=sent_claim.wanted)
        if len(sent_claim.shares) > 1:
            tasks = claim.in_turn(tasks, [share.queue for share in sent_claim.shares])
        return ClaimResult(tasks, sent_claim.lease, sent_claim.worker_id, answer.seconds, may_hold_more)

    async def receive_from(self, source: OpenSource, wanted: int, worker_id: UUID) -> ClaimResult:
        """The same from a feature's source."""
        lease = self._new_lease()
        begun_at = time.monotonic()
        try:
            tasks = await source.claim(
                lease=lease, worker_id=worker_id, queues=self._queues, batch_size=wanted
            )
        except BaseException:
            self._ledger.expect_no_more(lease)
            raise
        return ClaimResult(tasks, lease, worker_id, time.monotonic() - begun_at, len(tasks) >= wanted)

    async def cancel(self) -> bool:
        """Cancel the claim on its way. Return whether there was one: tasks that it may have found are ghosts now."""
        sent_claim, self._next = self._next, None
        if sent_claim is None:
            return False
        self._ledger.expect_no_more(sent_claim.lease)
        sent = asyncio.ensure_future(sent_claim.answer)
        sent.cancel()
        await asyncio.wait({sent})
        return True

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
        self._ledger.expect(lease)
        return lease


def always(_error: Exception) -> bool:
    return True
