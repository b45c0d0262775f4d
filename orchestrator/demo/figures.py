"""Read the demo's figures from the tables: while it runs, and at its end."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row, tuple_row

from orchestrator.demo import tasks
from orchestrator.postgres import statement

PROGRESS = statement.load(__file__, "figures.sql", "progress")
TALLY = statement.load(__file__, "figures.sql", "tally")
PICKUP = statement.load(__file__, "figures.sql", "pickup")
THROUGHPUT = statement.load(__file__, "figures.sql", "throughput")
DEAD_LETTER = statement.load(__file__, "figures.sql", "dead_letter")

Connection = psycopg.AsyncConnection[Any]


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The progress: how many workers serve, and how many tasks are in each state."""

    workers: int
    finished: int
    ready: int
    scheduled: int
    held: int


@dataclass(frozen=True, slots=True)
class Tally:
    """The results of the tasks of one type."""

    type: str
    tasks: int
    completed: int
    dead_letters: int
    others: int
    failed_attempts: int


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures that the demo shows at its end."""

    tallies: tuple[Tally, ...]
    probes: int
    pickup_p50_seconds: float
    pickup_p95_seconds: float
    fast: int
    fast_seconds: float
    dead_letter_id: int | None

    @property
    def tasks_per_second(self) -> float:
        """The rate of the fast tasks; 0 if there are none."""
        return self.fast / self.fast_seconds if self.fast_seconds else 0.0


async def read_progress(connection: Connection) -> TaskProgress:
    """Read the progress."""
    async with connection.cursor(row_factory=class_row(TaskProgress)) as cursor:
        found = await (await cursor.execute(PROGRESS)).fetchone()
    if found is None:
        raise AssertionError("an aggregate without GROUP BY has one row")
    return found


async def measure(connection: Connection) -> Figures:
    """Read the figures for the end."""
    async with connection.cursor(row_factory=class_row(Tally)) as cursor:
        tallies = await (await cursor.execute(TALLY)).fetchall()
    order = [task.name for task in tasks.TASKS]
    probes, p50, p95 = await row(connection, PICKUP) or (0, None, None)
    fast, seconds = await row(connection, THROUGHPUT) or (0, None)
    dead_letter = await row(connection, DEAD_LETTER)
    return Figures(
        tuple(sorted(tallies, key=lambda tally: order.index(tally.type))),
        probes, p50 or 0.0, p95 or 0.0, fast, seconds or 0.0, dead_letter[0] if dead_letter else None,
    )  # fmt: skip


async def row(connection: Connection, query: bytes) -> tuple[Any, ...] | None:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        return await (await cursor.execute(query)).fetchone()
