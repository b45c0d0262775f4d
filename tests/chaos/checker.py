"""Hold the books side by side, and say of each invariant what was looked at, and what broke it.

Each invariant is a file in checks/: first a SELECT that counts what there was to judge (`label`, `number`), then one
that returns the offences (`task_id`, or NULL, and `what`). The database does the joining: here are only numbers, and
the first few offences.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

CHECKS = Path(__file__).with_name("checks")
STEPS = Path(__file__).with_name("steps.sql")
TIMELINE = Path(__file__).with_name("timeline.sql")
SHOWN = 5
FLOORS: tuple[tuple[str, str, float], ...] = (
    ("I01", "acknowledged", 1.0),
    ("I05", "effects in the completing transaction", 0.1),
    ("I06", "executions", 1.0),
    ("I06", "reruns", 0.05),
    ("I08", "writes of duties", 0.01),
    ("I16", "steps by hand", 0.01),
    ("I17", "permits taken", 0.5),
    ("I17", "permits folded", 0.1),
)
"""What there must be to judge, a second of the storm, and once at the least; a run has fifty times as much."""
LINES_MAX = 60


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found about one invariant."""

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
    return [judged(connection, path) for path in sorted(CHECKS.glob("*.sql"))]


def judged(connection: psycopg.Connection[Any], path: Path) -> Finding:
    """Check one invariant."""
    text = path.read_text()
    title = text.splitlines()[0].removeprefix("-- ")
    count, offences = (part for part in text.split(";\n") if part.strip())
    numbers = connection.execute(count.encode()).fetchall()
    with connection.transaction(), connection.cursor("offences") as cursor:
        cursor.execute(offences.encode())
        shown = cursor.fetchmany(SHOWN)
        number = len(shown)
        # Ends: there are so many. Only the first are kept.
        while more := cursor.fetchmany(1000):
            number += len(more)
    return Finding(
        path.stem,
        title,
        tuple((str(label), int(value or 0)) for label, value in numbers),
        number,
        tuple((task_id, str(what)) for task_id, what in shown),
    )


def thin(findings: list[Finding], seconds: float) -> list[str]:
    """Say what there was too little of to judge: of empty books everything holds."""
    judged = {(finding.name, label): number for finding in findings for label, number in finding.judged}
    return [
        f"too little to judge in {name}: {label}"
        for name, label, a_second in FLOORS
        if judged.get((name, label), 0) < max(1.0, a_second * seconds)
    ]


def timelines(connection: psycopg.Connection[Any], findings: list[Finding]) -> dict[int, list[str]]:
    """Return all that the books say of the tasks that are shown, in the order of time."""
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
