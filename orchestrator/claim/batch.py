"""Claim up to a number of ready tasks under one fresh lease."""

import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types.numeric import Int4

from orchestrator.claim.scan_positions import Range, ScanPositions
from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed

PLACE = attrgetter("position", "id")
TO_TASK = partial(tuple.__new__, Claimed)
CLAIM = statement.load(__file__, "batch.sql")

# The most bytes of payloads in one answer: a claim of 1000 may meet 1000 payloads of 256 kB after any number of small
# ones. Each task may have an equal share. A task with a larger payload comes without it and is given back, and the next
# claim is smaller. The bytes count as stored, so compressed: to know the whole size the server would have to unpack it.
ANSWER_BYTES = 16_000_000
# No bound: a claim of one task always brings the whole payload.
WHOLE = 2**31 - 1


def new_lease() -> int:
    """Draw a lease: one for each claim statement, never used again."""
    return secrets.randbits(63)


class Answer:
    """The result of a claim, not read yet: the server is free for the next statement."""

    __slots__ = ("_batch_size", "_cursor", "_limits", "_positions", "_queues", "seconds")

    def __init__(
        self,
        cursor: psycopg.AsyncCursor[Claimed],
        queues: Sequence[str],
        batch_size: int,
        limits: Sequence[int] | None,
        positions: ScanPositions | None,
        seconds: float,
    ) -> None:
        self._cursor = cursor
        self._queues = queues
        self._batch_size = batch_size
        self._limits = limits
        self._positions = positions
        self.seconds = seconds

    @property
    def count(self) -> int:
        """How many tasks were claimed."""
        return self._cursor.rowcount

    async def tasks(self, *, round_trip_seconds: float = 0.0) -> list[Claimed]:
        """Read the tasks and sort them in order of execution: UPDATE … RETURNING promises no order."""
        tasks = await self._cursor.fetchall()
        tasks.sort(key=PLACE)
        if len(self._queues) > 1:
            rank = {queue: n for n, queue in enumerate(self._queues)}
            tasks.sort(key=lambda task: rank[task.queue])
        if self._positions is not None:
            self._positions.learn(
                tasks,
                self.seconds,
                wanted=self._batch_size,
                limits=None if self._limits is None else dict(zip(self._queues, self._limits, strict=True)),
                round_trip_seconds=round_trip_seconds,
            )
        return tasks


async def batch(
    connection: psycopg.AsyncConnection[Any],
    *,
    lease: int,
    worker_id: UUID,
    queues: Sequence[str],
    batch_size: int,
    limits: Sequence[int] | None = None,
    positions: ScanPositions | None = None,
) -> Answer:
    """Claim at most `batch_size` tasks under a fresh lease, and at most `limits` of each queue, if given. Serves
    the first queue of the sequence first."""
    payload_bytes = Int4(ANSWER_BYTES // batch_size if batch_size > 1 else WHOLE)
    given = {"lease": lease, "worker_id": worker_id, "batch_size": batch_size}
    where = where_to_look(queues, positions.ranges(queues) if positions is not None else None, limits)
    begun_at = time.monotonic()
    cursor = connection.cursor(row_factory=claimed, binary=True)
    await cursor.execute(CLAIM, given | where | {"payload_bytes": payload_bytes})
    return Answer(cursor, queues, batch_size, limits, positions, time.monotonic() - begun_at)


def where_to_look(
    queues: Sequence[str], ranges: Sequence[Range] | None, limits: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return the parts of the order to look at, as parameters of the statement; with payloads of any size."""
    if ranges is None:
        return {
            "payload_bytes": Int4(WHOLE),
            "queues": list(queues),
            "limits": None if limits is None else list(limits),
            "from_positions": None,
            "from_ids": None,
            "to_positions": None,
            "to_ids": None,
        }
    most = None if limits is None else dict(zip(queues, limits, strict=True))
    return {
        "payload_bytes": Int4(WHOLE),
        "queues": [part.queue for part in ranges],
        "limits": None if most is None else [most[part.queue] for part in ranges],
        "from_positions": [part.after[0] for part in ranges],
        "from_ids": [part.after[1] for part in ranges],
        "to_positions": [part.before[0] for part in ranges],
        "to_ids": [part.before[1] for part in ranges],
    }


def claimed(_cursor: object) -> Callable[[Sequence[Any]], Claimed]:
    """Make each row of the driver a task. `_make` does the same, in Python, and also checks the length."""
    return TO_TASK
