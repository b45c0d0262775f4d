"""A short run without faults, for the checker's own tests: some tasks of every kind, run by one worker, with records.

The tests then change the records, and that change is the only fault in them.
"""

import json
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from tests.chaos import records
from tests.chaos.handlers import HANDLERS
from tests.chaos.producer_log import ACKNOWLEDGED, IN_DOUBT, REFUSED, ROLLED_BACK, Item, Journal
from tests.feature.child import worker
from tests.patience import eventually

KINDS = [kind for kind in HANDLERS if kind not in ("chaos.poison", "chaos.linger", "chaos.overrun")]
ENQUEUE = "SELECT orchestrator.enqueue(%s, jsonb_build_object('token', %s::text), key => %s)"


def live(connection: psycopg.Connection[Any], url: str, folder: Path) -> None:
    """Create the records, run, and load the files; the checker has not run yet."""
    records.create_tables(connection)
    for name in ("journals", "logs"):
        (folder / name).mkdir()
    journal = Journal(folder / "journals" / "p1.1.jsonl")
    who = {"CHAOS_WHO": "w1.1", "CHAOS_LEDGER_URL": url}
    named = make_conninfo(url, options="-c chaos.who=w1.1")
    with worker(
        named, folder / "logs" / "w1.1.log", "-c", "4", app="tests.chaos.handlers:app", **who
    ) as process:
        eventually(lambda: process.has_logged("worker started"), "it serves")
        enqueue(connection, journal)
        eventually(lambda: is_empty(connection), "all have ended")
        manually(connection)
        eventually(lambda: is_empty(connection), "all have ended again")
    write(folder, "samples", time.time(), "w1.1", 60.0, 8, 20, 8)
    write(folder, "ends", time.time(), "w1.1", -9, True)
    write(folder, "faults", time.time(), "operator requeues", "from 1", "done")
    records.load(connection, folder)


def enqueue(connection: psycopg.Connection[Any], journal: Journal) -> None:
    """Enqueue two of each kind, and keep a journal. One key is used twice, two tasks do not exist."""
    for n, kind in enumerate([*KINDS, *KINDS]):
        one(connection, journal, n, Item(f"p1.1-{n}", kind))
    one(connection, journal, 100, Item("p1.1-100", "chaos.note", "key"))
    one(connection, journal, 101, Item("p1.1-101", "chaos.note", "key"))
    for n, verdict in ((102, ROLLED_BACK), (103, REFUSED), (104, IN_DOUBT)):
        journal.intend(n, "INSERT", [Item(f"p1.1-{n}", "chaos.note")])
        journal.conclude(n, verdict)
    journal.intend(105, "set by function", [Item(f"p1.1-105-{k}", "chaos.note") for k in range(3)])
    with connection.transaction():
        ids = [asked(connection, "chaos.note", f"p1.1-105-{k}", None) for k in range(3)]
    journal.conclude(105, ACKNOWLEDGED, ids)


def one(connection: psycopg.Connection[Any], journal: Journal, n: int, item: Item) -> None:
    journal.intend(n, "function", [item])
    journal.conclude(n, ACKNOWLEDGED, [asked(connection, item.type, item.token, item.key)])


def asked(connection: psycopg.Connection[Any], kind: str, token: str, key: str | None) -> int:
    row = connection.execute(ENQUEUE.encode(), [kind, token, key]).fetchone()
    assert row is not None
    return int(row[0])


def manually(connection: psycopg.Connection[Any]) -> None:
    """Requeue a completed task, and delete another, like an operator."""
    connection.execute("SET application_name = 'chaos supervisor'")
    connection.execute(
        "UPDATE orchestrator.tasks SET status = 'pending' WHERE id ="
        " (SELECT min(id) FROM orchestrator.tasks WHERE status = 'completed' AND type = 'chaos.note')"
    )
    connection.execute(
        "DELETE FROM orchestrator.tasks WHERE id ="
        " (SELECT max(id) FROM orchestrator.tasks WHERE status = 'completed' AND type = 'chaos.note_in_thread')"
    )


def is_empty(connection: psycopg.Connection[Any]) -> bool:
    return connection.execute("SELECT count(*) FROM orchestrator.tasks_live").fetchone() == (0,)


def write(folder: Path, name: str, *line: object) -> None:
    with (folder / f"{name}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
