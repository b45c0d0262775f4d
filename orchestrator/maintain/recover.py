"""Take back the tasks of workers that are gone: their beat is too old, or their beacon has been gone for a while.

One look that finds no beacon proves little: the worker may have lost only that connection, and reports that, or takes a
new beacon, within the grace. So the duty remembers when it first saw the beacon gone, and after which beat. If it is
still gone after the grace, without a beat since, the worker is gone. The write checks again.

A beat that is too old by the database's clock proves little either: that clock may have jumped, or everything but the
clock was paused. So the duty first watches a worker by its own clock, for long enough that a beat is due meanwhile.
A worker's beat interval is its own setting, at most a third of its dead_after: that gives the time to watch.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.lead import BEACON_GRACE_SECONDS
from orchestrator.maintain.skip_bad_rows import BAD_ROW, skipping_bad_rows
from orchestrator.maintain.tallies import emit_written
from orchestrator.postgres import statement

RECOVER = statement.load(__file__, "recover.sql")
GONE = statement.load(__file__, "missing_workers.sql")
ORPHANS = statement.load(__file__, "orphans.sql")

BATCH_SIZE = 1000
# How long to watch a worker before it counts as late: a part of its dead_after, and at least 1.25 of its beats.
WATCHED = 1.25 / 3

# A worker, and its last beat when it was seen, as the database writes it.
Seen = tuple[UUID, str]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The result of one round."""

    returned: int
    dead_lettered: int
    workers: int

    @property
    def may_be_more(self) -> bool:
        return self.returned + self.dead_lettered >= BATCH_SIZE


class Recovery:
    """The duty, with its memory of beacons and beats. A new leader begins with what it has seen since the old leader's
    beacon was gone."""

    def __init__(
        self, *, grace_seconds: float = BEACON_GRACE_SECONDS, spares_after_restart: bool = True
    ) -> None:
        self._grace_seconds = grace_seconds
        self._spares_after_restart = spares_after_restart
        # By our own clock: from when on a worker counts as gone, if every look until then sees it so.
        self._beacon_lost_until: dict[Seen, float] = {}
        self._late_until: dict[Seen, float] = {}

    def is_worth(self, connection: psycopg.Connection[Any]) -> bool:
        """Look which workers may be gone; return whether there is anything to do about it."""
        given = {"late": 1 - WATCHED, "spares_after_restart": self._spares_after_restart}
        with connection.cursor(row_factory=tuple_row) as cursor:
            rows = cursor.execute(GONE, given, prepare=False).fetchall()
        beacon_lost = {(who, beat): self._grace_seconds for why, who, beat, _ in rows if why == "beacon_lost"}
        late = {(who, beat): WATCHED * seconds for why, who, beat, seconds in rows if why == "late"}
        self._beacon_lost_until = watched(self._beacon_lost_until, beacon_lost)
        self._late_until = watched(self._late_until, late)
        return bool(
            any(why in ("orphans", "elsewhere") for why, *_ in rows)
            or over(self._beacon_lost_until)
            or over(self._late_until)
        )

    def soon(self) -> float:
        """Return in how many seconds the next watched worker has been watched for long enough."""
        now = time.monotonic()
        left = [
            at - now for at in (*self._beacon_lost_until.values(), *self._late_until.values()) if at > now
        ]
        return min(left, default=math.inf)

    def __call__(self, connection: psycopg.Connection[Any]) -> bool:
        """Do one bounded round; return whether there may be more to take back."""
        return recover(
            connection,
            spares_after_restart=self._spares_after_restart,
            gone=over(self._beacon_lost_until),
            watched=over(self._late_until),
        ).may_be_more


def watched(before: dict[Seen, float], seen: dict[Seen, float]) -> dict[Seen, float]:
    """Return until when to watch each of these, given for how many seconds. A worker that beats begins anew."""
    now = time.monotonic()
    return {one: before.get(one, now + seconds) for one, seconds in seen.items()}


def over(until: dict[Seen, float]) -> list[Seen]:
    """Return the workers that have been watched for long enough."""
    now = time.monotonic()
    return [one for one, at in until.items() if now >= at]


def recover(
    connection: psycopg.Connection[Any],
    *,
    spares_after_restart: bool = False,
    gone: list[Seen] | None = None,
    watched: list[Seen] | None = None,
) -> Recovered:
    """Do one bounded round. `gone`: workers without a beacon, each with its last beat when that was seen. With
    `watched`, no other worker's beat is too old. With `spares_after_restart`, no beat is too old before the server has
    been up for that worker's dead_after."""
    given: dict[str, object] = {
        "spares_after_restart": spares_after_restart,
        "gone_ids": [worker_id for worker_id, _ in gone or ()],
        "gone_beats": [beat_at for _, beat_at in gone or ()],
        "watched_ids": None if watched is None else [worker_id for worker_id, _ in watched],
        "watched_beats": None if watched is None else [beat_at for _, beat_at in watched],
        "batch_size": BATCH_SIZE,
    }
    try:
        with connection.transaction():
            return take_back(connection, given, None)
    except BAD_ROW:
        # First only declare the workers dead; after that the orphans are known.
        declared = take_back(connection, given, [])
        with connection.cursor(row_factory=tuple_row) as cursor:
            rows = cursor.execute(ORPHANS, {"most": BATCH_SIZE}, prepare=False).fetchall()
        done = skipping_bad_rows(
            connection, "recover", [n for (n,) in rows], partial(take_back, connection, given)
        )
        return Recovered(sum(r.returned for r in done), sum(r.dead_lettered for r in done), declared.workers)


def take_back(
    connection: psycopg.Connection[Any], given: Mapping[str, object], ids: Sequence[int] | None
) -> Recovered:
    """Run the statement, for all orphans or for these."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        # It runs rarely: so plan it each time, and never use a plan made for empty tables.
        cursor.execute(RECOVER, {**given, "only_ids": ids}, prepare=False)
        row = cursor.fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: a SELECT without FROM has one row
    returned, dead_lettered, workers, _rings, _redated, ended, leader = row
    emit_written(leader, ended)
    if returned or dead_lettered or workers:
        events.emit(events.TasksRecovered(returned, dead_lettered, workers))
    return Recovered(returned, dead_lettered, workers)
