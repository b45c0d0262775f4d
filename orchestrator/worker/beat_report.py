"""The report that one beat or look brings."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import namedtuple_row, tuple_row

from orchestrator.config import Config
from orchestrator.lead import View
from orchestrator.postgres import statement
from orchestrator.task.claimed import Claimed, unknown
from orchestrator.worker.ledger import Ledger

BEAT = statement.load(__file__, "beat.sql")
LEASES = statement.load(__file__, "leases.sql")


@dataclass(frozen=True, slots=True)
class Report:
    """The database's report about a worker."""

    worker_id: UUID
    sent_at: float
    alive: bool
    draining: bool
    at_home: bool
    beacon_lost: bool  # our own beacon is gone, even if the listener does not know
    paused: tuple[str, ...]
    peers: int  # how many workers live
    view: View
    # Tasks that the worker holds, whose leases are lost, and why.
    lost: Mapping[tuple[int, int], str] = field(default_factory=dict)
    ghosts: Sequence[Claimed] = ()  # the database has them in our name, and the ledger does not know them

    @property
    def names_beacon(self) -> bool:
        """Whether this beat has written our beacon into our row."""
        return self.view.renewed and self.view.has_beacon


def ask(
    connection: psycopg.Connection[Any],
    worker_id: UUID,
    *,
    beats: bool,
    draining: bool,
    beacon: int | None,
    rings: bool,
    config: Config,
    blocked_seconds: float | None = None,
) -> Report:
    """Beat, or only look, and return the report. It does not cover the leases yet."""
    sent_at = time.monotonic()
    given = {
        "id": worker_id,
        "beats": beats,
        "draining": draining,
        "beacon": beacon,
        "blocked_seconds": blocked_seconds,
        "rings": rings,
        "term_seconds": config.term_seconds,
    }
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(BEAT, given)
        row: Any = cursor.fetchone()  # exactly one: a SELECT without FROM
    return Report(
        worker_id=worker_id,
        sent_at=sent_at,
        alive=row.alive,
        draining=row.draining,
        at_home=row.at_home,
        beacon_lost=row.beacon_lost,
        paused=tuple(row.paused or ()),
        peers=row.peers,
        view=View(
            worker_id=worker_id,
            term=row.term,
            renewed=beats,
            leader_id=row.leader_id,
            beat_at=row.leader_beat_at,
            holds=row.leader_holds,
            beacon_lost=row.leader_beacon_lost,
            deputy=row.deputy,
            has_beacon=beacon is not None and not row.beacon_lost,
            alone=row.peers <= 1,
        ),
    )


def with_leases(connection: psycopg.Connection[Any], report: Report, ledger: Ledger) -> Report:
    """Add the state of the leases."""
    with ledger.look() as held:
        lost, named = leases(connection, report.worker_id, held)
        return replace(report, lost=lost, ghosts=ledger.ghosts(named))


def leases(
    connection: psycopg.Connection[Any], worker_id: UUID, held: Iterable[Claimed]
) -> tuple[dict[tuple[int, int], str], list[Claimed]]:
    """Return which of these leases are lost, and why; and the other tasks that the database holds for this worker."""
    pairs = [(task.id, task.lease) for task in held]
    ids, numbers = [task_id for task_id, _ in pairs], [lease for _, lease in pairs]
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(LEASES, {"id": worker_id, "ids": ids, "leases": numbers}).fetchall()
    lost, others = {}, []
    for is_lost, task_id, lease, queue, kind, attempt, reason in rows:
        if is_lost:
            lost[task_id, lease] = reason
        else:
            others.append(unknown(id=task_id, lease=lease, queue=queue, type=kind, attempt=attempt))
    return lost, others
