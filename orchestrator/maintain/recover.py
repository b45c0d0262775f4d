"""Take back the tasks of workers that are gone: whose beat is too old, or whose beacon has been dark for a while.

A beacon that is dark at one look proves little: the worker may have lost that one connection, and says so, or lights
another, within the grace. So it is remembered when a beacon was first seen dark, and after which beat; still dark after
the grace, and no beat since, is a worker that is gone. The write looks again.
"""

import time
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

RECOVER = statement.load(__file__, "recover.sql")
DARK = statement.load(__file__, "dark.sql")

BATCH_SIZE = 1000
# As for a leader (lead/leader.py).
BEACON_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one round took back."""

    returned: int
    buried: int
    workers: int

    @property
    def may_be_more(self) -> bool:
        return self.returned + self.buried >= BATCH_SIZE


class Recovery:
    """The duty, with its memory of beacons. A new leader begins without any."""

    def __init__(self, dead_after_seconds: float, *, grace_seconds: float = BEACON_GRACE_SECONDS) -> None:
        self._dead_after_seconds = dead_after_seconds
        self._grace_seconds = grace_seconds
        self._dark_since: dict[tuple[UUID, datetime], float] = {}

    def __call__(self, connection: psycopg.Connection[Any]) -> bool:
        """Do one bounded round; tell whether there may be more to take back."""
        with connection.cursor(row_factory=tuple_row) as cursor:
            dark = cursor.execute(DARK, {"dead_after_seconds": self._dead_after_seconds}).fetchall()
        now = time.monotonic()
        self._dark_since = {seen: self._dark_since.get(seen, now) for seen in dark}
        gone = [seen for seen, since in self._dark_since.items() if now - since >= self._grace_seconds]
        return recover(
            connection,
            dead_after_seconds=self._dead_after_seconds,
            restarted_after_seconds=self._dead_after_seconds,
            gone=gone,
        ).may_be_more


def recover(
    connection: psycopg.Connection[Any],
    *,
    dead_after_seconds: float,
    restarted_after_seconds: float = 0.0,
    gone: list[tuple[UUID, datetime]] | None = None,
) -> Recovered:
    """Do one bounded round. `gone`: workers without a beacon, each with the beat after which it was last seen dark.
    Nobody's beat is too old before the server has been up for `restarted_after_seconds`."""
    given = {
        "dead_after_seconds": dead_after_seconds,
        "restarted_after_seconds": restarted_after_seconds,
        "gone_ids": [worker_id for worker_id, _ in gone or ()],
        "gone_beats": [beat_at for _, beat_at in gone or ()],
        "batch_size": BATCH_SIZE,
    }
    with connection.cursor(row_factory=tuple_row) as cursor:
        # Run once in a while: planned each time, it never runs by a plan made for empty tables.
        cursor.execute(RECOVER, given, prepare=False)
        row = cursor.fetchone()
    assert row is not None  # noqa: S101 - for the type checker: a SELECT without FROM has one row
    returned, buried, workers, _rings, _redated = row
    if returned or buried or workers:
        events.emit(events.TasksRecovered(returned, buried, workers))
    return Recovered(returned, buried, workers)
