"""Take back the tasks of workers that are gone."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from orchestrator import events
from orchestrator.postgres import statement

RECOVER = statement.load(__file__, "recover.sql")

BATCH_SIZE = 1000


@dataclass(frozen=True, slots=True)
class Recovered:
    """What one round took back."""

    returned: int
    buried: int
    workers: int

    @property
    def may_be_more(self) -> bool:
        return self.returned + self.buried >= BATCH_SIZE


def recover(connection: psycopg.Connection[Any], *, dead_after_seconds: float) -> Recovered:
    """Do one bounded round."""
    given = {"dead_after_seconds": dead_after_seconds, "batch_size": BATCH_SIZE}
    with connection.cursor(row_factory=tuple_row) as cursor:
        # Run once in a few seconds: planned each time, it never runs by a plan made for empty tables.
        cursor.execute(RECOVER, given, prepare=False)
        row = cursor.fetchone()
    assert row is not None  # noqa: S101 - for the type checker: a SELECT without FROM has one row
    returned, buried, workers, _rings = row
    if returned or buried or workers:
        events.emit(events.TasksRecovered(returned, buried, workers))
    return Recovered(returned, buried, workers)
