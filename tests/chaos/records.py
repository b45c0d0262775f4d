"""Create the record tables of a run in its database, and copy the records from files into them at its end."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from tests.chaos import producer_log
from tests.feature import lane_limits

TABLES = Path(__file__).with_name("records.sql")
ROLES = Path(__file__).with_name("roles.sql")
JOURNAL: LiteralString = (
    "COPY chaos.journal (producer, n, way, token, type, key, verdict, task_id, at, said) FROM STDIN"
)
FAULTS: LiteralString = "COPY chaos.faults (at, kind, target, detail) FROM STDIN"
SAMPLES: LiteralString = "COPY chaos.samples (at, who, mib, threads, files, sockets) FROM STDIN"
FREEZES: LiteralString = "COPY chaos.freezes (since, who, until) FROM STDIN"
ENDS: LiteralString = "COPY chaos.ends (at, who, status, expected) FROM STDIN"
LOG: LiteralString = "COPY chaos.log (who, event, number) FROM STDIN"
WORKER_EVENTS: LiteralString = "COPY chaos.worker_events (at, who, event, worker_id, task_id) FROM STDIN"
# The lanes of records.sql, and how many tasks of each may be leased at once.
LANES = range(100, 116, 2)
LIMIT = 3
TRACEBACK = "no event: Traceback"
RECORDED_EVENTS = {
    "stale outcome", "lease lost", "task released", "worker started", "worker stopping", "worker cut off",
    "worker declared dead",
}  # fmt: skip
METRICS: LiteralString = "COPY chaos.metrics (who, name, value) FROM STDIN"


def create_tables(connection: psycopg.Connection[Any]) -> None:
    """Create the schema and its triggers."""
    connection.execute(TABLES.read_bytes())
    lane_limits.install(connection, dict.fromkeys(LANES, LIMIT))


def create_roles(connection: psycopg.Connection[Any]) -> None:
    """Create the roles of a run; they exist once in a server."""
    connection.execute(ROLES.read_bytes())


def load(connection: psycopg.Connection[Any], folder: Path) -> None:
    """Copy the files of a run into the tables, line by line."""
    for path in sorted((folder / "journals").glob("*.jsonl")):
        copy(connection, JOURNAL, (line._replace(at=moment(line.at)) for line in producer_log.read(path)))  # type: ignore[arg-type]
    for statement, name in ((FAULTS, "faults"), (SAMPLES, "samples"), (ENDS, "ends")):
        copy(connection, statement, rows(folder / f"{name}.jsonl"))
    freezes = rows(folder / "freezes.jsonl")
    copy(connection, FREEZES, ([since, who, moment(until)] for since, who, until in freezes))
    copy(connection, LOG, counted(folder))
    copy(connection, WORKER_EVENTS, worker_events(folder))
    copy(connection, METRICS, metrics(folder))
    connection.execute("ANALYZE")


def copy(
    connection: psycopg.Connection[Any], statement: LiteralString, lines: Iterable[Iterable[Any]]
) -> None:
    with connection.cursor().copy(statement) as into:
        for line in lines:
            into.write_row(tuple(line))


def rows(path: Path) -> Iterator[list[Any]]:
    """Yield the lines of one of the record files; the first column is a time."""
    if path.exists():
        with path.open() as file:
            for line in file:
                at, *rest = json.loads(line)
                yield [moment(at), *rest]


def moment(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def worker_events(folder: Path) -> Iterator[list[Any]]:
    """Yield the workers' log entries about leases and about themselves."""
    for path in sorted((folder / "logs").glob("w*.log")):
        with path.open(errors="replace") as file:
            for line in file:
                if line.startswith("{") and event_of(line) in RECORDED_EVENTS:
                    said = json.loads(line)
                    yield [
                        said["timestamp"], path.stem, said["event"], said.get("worker_id"), said.get("task_id")
                    ]  # fmt: skip


def counted(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Count the lines of each log by their events; a line without an event counts under its first words."""
    for path in sorted((folder / "logs").glob("*.log")):
        counts: Counter[str] = Counter()
        with path.open(errors="replace") as file:
            for line in file:
                event = event_of(line)
                counts[event + end_of(file) if event.startswith(TRACEBACK) else event] += 1
        yield from ((path.stem, event, number) for event, number in counts.items())


def metrics(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the counts of each worker that ended by itself."""
    for path in sorted((folder / "metrics").glob("*.json")):
        yield from ((path.stem, name, value) for name, value in json.loads(path.read_text()).items())


def end_of(lines: Iterator[str]) -> str:
    """Read a traceback to its end. Return the place and the error."""
    place = ""
    for line in lines:
        if not line.startswith(" "):
            return f"{place} {line.strip()}"
        if line.lstrip().startswith("File "):
            place = line.strip()
    return place


def event_of(line: str) -> str:
    if line.startswith("{"):
        try:
            return str(json.loads(line)["event"])
        except (ValueError, KeyError):
            return "no event: broken line"
    return f"no event: {line.strip()[:60]}"
