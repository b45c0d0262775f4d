"""Compare the records, and report for each invariant what was checked, and what broke it.

tests/invariants checks the moves of tasks and the terms of leaders, as in the other tests. The checks that need the
records of whole processes are in checks/, one file for each invariant: first a SELECT that counts the checked items
(`label`, `number`), then one that returns further offences (`task_id`, or NULL, and `what`).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from orchestrator.task.status import ChangedBy
from tests.invariants import STATED
from tests.invariants.moves import Judge, Move, wrong_in
from tests.invariants.terms import Terms

CHECKS = Path(__file__).with_name("checks")
STEPS = Path(__file__).with_name("steps.sql")
MOVES = Path(__file__).with_name("moves.sql")
TERMS = Path(__file__).with_name("terms.sql")
TIMELINE = Path(__file__).with_name("timeline.sql")
SHOWN = 5
FLOORS: tuple[tuple[str, str, float], ...] = (
    ("I01", "acknowledged", 1.0),
    ("I05", "effects in the completing transaction", 0.1),
    ("I06", "executions", 1.0),
    ("I06", "reruns", 0.05),
    ("I08", "writes of duties", 0.01),
    ("I16", "manual steps", 0.01),
    ("I17", "permits taken", 0.5),
    ("I17", "permits folded", 0.1),
    ("I18", "of tasks that were placed again", 0.1),
)
"""The least number of items to check, per second of faults, and at least one; a run has fifty times as many."""
LINES_MAX = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one invariant."""

    name: str
    title: str
    judged: tuple[tuple[str, int], ...]
    offences: int
    shown: tuple[tuple[int | None, str], ...] = field(default=())

    @property
    def holds(self) -> bool:
        return self.offences == 0


def check(connection: psycopg.Connection[Any]) -> list[Finding]:
    """Check everything."""
    connection.execute(STEPS.read_bytes())
    known: dict[str, list[tuple[int | None, str]]] = defaultdict(list)
    for task_id, fault in (*in_moves(connection), *in_terms(connection)):
        name, _, what = fault.partition(": ")
        known[name].append((task_id, what))
    return [judged(connection, name, CHECKS / f"I{int(name[1:]):02}.sql", known[name]) for name in STATED]


def in_moves(connection: psycopg.Connection[Any]) -> Iterator[tuple[int | None, str]]:
    """Yield the tasks whose moves break an invariant."""
    judge = Judge()
    with connection.transaction(), connection.cursor("moves", row_factory=dict_row) as cursor:
        for line in cursor.execute(MOVES.read_bytes()):
            by = ChangedBy.MANUAL if line["is_manual"] else ChangedBy.WORKER
            move = Move(line["task_id"], line["old"], line["new"], by, line["name"])
            for fault in (*judge.faults(move), *(wrong_in(move.new) if move.new else ())):
                yield move.task_id, fault


def in_terms(connection: psycopg.Connection[Any]) -> Iterator[tuple[int | None, str]]:
    """Yield the terms that do not rise. The duties show whether two workers led at once (I08.sql)."""
    terms = Terms()
    for leader, term in connection.execute(TERMS.read_bytes()):
        terms.ends()
        for fault in terms.begins(leader, term):
            yield None, fault


def judged(
    connection: psycopg.Connection[Any], name: str, path: Path, known: list[tuple[int | None, str]]
) -> Finding:
    """Check one invariant."""
    count, offences = (part for part in path.read_text().split(";\n") if part.strip())
    numbers = connection.execute(count.encode()).fetchall()
    with connection.transaction(), connection.cursor("offences") as cursor:
        cursor.execute(offences.encode())
        shown = cursor.fetchmany(SHOWN)
        number = len(shown)
        # Ends with the last row. Only the first rows are kept.
        while more := cursor.fetchmany(1000):
            number += len(more)
    return Finding(
        path.stem,
        STATED[name],
        tuple((str(label), int(value or 0)) for label, value in numbers),
        len(known) + number,
        tuple((task_id, str(what)) for task_id, what in [*known, *shown][:SHOWN]),
    )


def thin(findings: list[Finding], seconds: float) -> list[str]:
    """Return the checks with too few items: for empty records every invariant holds."""
    judged = {(finding.name, label): number for finding in findings for label, number in finding.judged}
    return [
        f"too little to judge in {name}: {label}"
        for name, label, a_second in FLOORS
        if judged.get((name, label), 0) < max(1.0, a_second * seconds)
    ]


def timelines(connection: psycopg.Connection[Any], findings: list[Finding]) -> dict[int, list[str]]:
    """Return all records of the tasks in the report, in the order of time."""
    ids = {task_id for finding in findings for task_id, _ in finding.shown if task_id is not None}
    return {
        task_id: [
            f"{at:%H:%M:%S.%f} {book:8} {text}"
            for at, book, text in connection.execute(
                TIMELINE.read_bytes(), {"task_id": task_id, "limit": LINES_MAX}
            ).fetchall()
        ]
        for task_id in sorted(ids)
    }
