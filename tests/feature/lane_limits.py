"""A feature for tests: at most n tasks of one lane run at a time, in all workers together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

import psycopg

from orchestrator.claim.batch import ANSWER_BYTES, CLAIM, claimed
from orchestrator.feature import Feature, Host, Parts
from orchestrator.finish import LeaseEnds
from orchestrator.lead import Duty
from orchestrator.postgres.session import Connection
from orchestrator.task.claimed import Claimed

NAME = "lane limits"
OBJECTS = Path(__file__).with_suffix(".sql")
FOLD: LiteralString = "SELECT lane_limits.fold()"
TAKE: LiteralString = (
    "SELECT lane_limits.claim(%(lease)s::bigint, %(worker_id)s, %(queues)s::text[], %(batch_size)s)"
)
# What the plain claim returns of each task, of those with this lease.
TAKEN = (
    b"SELECT"
    + CLAIM.partition(b"RETURNING")[2]
    + b"\nFROM orchestrator.tasks_live AS t WHERE t.lease = %(lease)s"
)


def install(connection: psycopg.Connection[Any], limits: dict[int, int]) -> None:
    """Make the feature's objects, with these limits by lane."""
    connection.execute(OBJECTS.read_bytes())
    for hold, most in limits.items():
        connection.execute("INSERT INTO lane_limits.limits VALUES (%s, %s)", [hold, most])


class LaneLimits:
    """The source and the companion of one worker."""

    def __init__(self, host: Host) -> None:
        self._ring = host.ring

    async def claim(
        self,
        connection: Connection,
        *,
        lease: int,
        worker_id: UUID,
        queues: Sequence[str],
        batch_size: int,
    ) -> list[Claimed]:
        """Fold, then claim: three transactions in one round trip."""
        given = {
            "lease": lease,
            "worker_id": worker_id,
            "queues": list(queues),
            "batch_size": batch_size,
            "payload_bytes": ANSWER_BYTES // batch_size,
        }
        cursor = connection.cursor(row_factory=claimed, binary=True)
        async with connection.pipeline() as pipeline:
            await connection.execute(FOLD)
            await pipeline.sync()
            await connection.execute(TAKE, given)
            await pipeline.sync()
            await cursor.execute(TAKEN, given)
        return sorted(await cursor.fetchall(), key=lambda task: (task.position, task.id))

    async def follow(self, connection: Connection, ends: LeaseEnds) -> float | None:
        """Fold at once, and claim again."""
        if ends.holds:
            await connection.execute(FOLD)
            self._ring()
        return None


def fold(connection: psycopg.Connection[Any]) -> bool:
    """The leader's duty: permits that came back in any other way."""
    connection.execute(FOLD)
    return False


def join(host: Host) -> Parts:
    """All parts."""
    limits = LaneLimits(host)
    return Parts(source=limits, companion=limits, urgent=[Duty(NAME, 1.0, fold)])


def join_without_net(host: Host) -> Parts:
    """Without the duty: what the companion does not do is not done."""
    limits = LaneLimits(host)
    return Parts(source=limits, companion=limits)


LANE_LIMITS = Feature(NAME, join)
WITHOUT_NET = Feature(NAME, join_without_net)
