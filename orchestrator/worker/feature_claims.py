"""Claim from the sources of features, for free slots only.

A plain claim brings tasks ahead of the slots. Tasks of a source hold permits, so they start at once, before the plain
ones that wait for a slot. Neither side waits for the other's backlog to end:

    the plain claim may find more    the sources get half of the free slots, rounded up and down in turn
    a source may hold more           the plain claim brings no task ahead of the slots, or none would ever be free
"""

from collections.abc import Callable, Sequence
from uuid import UUID

from orchestrator import events
from orchestrator.feature import OpenSource
from orchestrator.postgres import transient_errors
from orchestrator.worker.claim_pipeline import ClaimPipeline, ClaimResult
from orchestrator.worker.claim_size import CLAIM_MAX
from orchestrator.worker.ledger import Ledger


class FeatureClaims:
    """Asks the sources. `take` takes the tasks, unless another thread has them; `look` asks for a look at leases."""

    def __init__(
        self,
        sources: Sequence[OpenSource],
        claims: ClaimPipeline,
        ledger: Ledger,
        *,
        take: Callable[[ClaimResult], bool],
        look: Callable[[], None],
    ) -> None:
        self._sources = sources
        self._claims = claims
        self._ledger = ledger
        self._take = take
        self._look = look
        self._holding: set[str] = set()
        self._rounds_up = False
        # All tasks taken from sources have begun when so many attempts have begun.
        self._begun = 0

    @property
    def free(self) -> int:
        """How many slots are neither busy nor awaited by a task of a source."""
        line = len(self._ledger.line)
        waiting = min(line, max(0, self._begun - self._ledger.begun))
        return max(0, self._ledger.free + line - waiting)

    @property
    def may_hold_more(self) -> bool:
        """Whether a source may hold more tasks than it gave, or was to be asked and no slot was free."""
        return bool(self._holding)

    def leave(self) -> int:
        """Return the most tasks that the plain claim should bring."""
        return max(0, self._ledger.free) if self._holding else CLAIM_MAX

    async def take(self, worker_id: UUID, *, looks: bool, plain_holds: bool) -> None:
        """Claim from each source that may hold tasks; from all of them if this turn `looks`."""
        for source in self._sources:
            if looks or source.name in self._holding:
                self._holding.add(source.name)
                if wanted := self._wanted(plain_holds=plain_holds):
                    await self._claim(source, wanted, worker_id)

    def _wanted(self, *, plain_holds: bool) -> int:
        if not plain_holds:
            return self.free
        self._rounds_up = not self._rounds_up
        return (self.free + self._rounds_up) // 2

    async def _claim(self, source: OpenSource, wanted: int, worker_id: UUID) -> None:
        self._holding.discard(source.name)
        try:
            found = await self._claims.receive_from(source, wanted, worker_id)
            if not self._take(found):
                self._look()
            elif found.tasks:
                self._begun = max(self._begun, self._ledger.begun) + len(found.tasks)
                if found.may_hold_more:
                    self._holding.add(source.name)
        except Exception as error:
            # A source must not end the worker. It is asked again at the next poll.
            self._look()  # The claim may be committed: its tasks would be ghosts.
            if not transient_errors.is_transient(error):
                events.emit(
                    events.DutyFailed(source.name, type(error).__name__, transient_errors.reason(error))
                )
