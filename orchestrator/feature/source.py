"""A second source of claims, beside the plain claim.

The plain claim leaves out every task that has a `lane`. A source claims those, by its own rules. The worker asks it
when there are free slots: after a ring, at each poll, and again at once after a claim that brought as many as were
asked for. Its tasks start before the plain tasks that were claimed ahead, so that none holds a permit while it waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol
from uuid import UUID

from orchestrator.postgres.session import Connection, Session
from orchestrator.task.claimed import Claimed


class Source(Protocol):
    """Claims tasks that have a lane."""

    async def claim(
        self,
        connection: Connection,
        *,
        lease: int,
        worker_id: UUID,
        queues: Sequence[str],
        batch_size: int,
    ) -> list[Claimed]:
        """Claim at most `batch_size` tasks under this lease, in the order in which they should start.

        Autocommit; the source may run transactions of its own, in a pipeline. There it calls `sync` after each
        statement that may fail: the server skips what follows, up to a sync, and psycopg counts that as prepared. The
        source gives every row the values of claim/batch.sql, and stamps `holds`. It claims nothing for a worker that is
        not alive, or from a paused queue. Less than `batch_size`: it is asked again after a ring or at the next poll.
        It may be cut off at any moment: the worker then finds the claimed tasks by its id, and gives them back."""
        ...


@dataclass(frozen=True, slots=True)
class OpenSource:
    """A feature's source, with the feature's name and connection."""

    name: str
    source: Source
    session: Session

    async def claim(
        self, *, lease: int, worker_id: UUID, queues: Sequence[str], batch_size: int
    ) -> list[Claimed]:
        """Claim once; a failure is the caller's."""
        work = partial(
            self.source.claim, lease=lease, worker_id=worker_id, queues=queues, batch_size=batch_size
        )
        return await self.session.run(work, give_up_on=always)


def always(_error: Exception) -> bool:
    return True
