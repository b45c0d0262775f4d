"""Records with one fault: the checker finds it, and accepts the same records without it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString, NamedTuple

import psycopg
import pytest

from tests import servers
from tests.chaos import checker, short_run
from tests.chaos.producer_log import Item, Journal, read
from tests.conftest import _database

VIOLATIONS = Path(__file__).with_name("violations.sql")
EMPTY: LiteralString = """
DELETE FROM chaos.journal;
DELETE FROM chaos.trail;
DELETE FROM chaos.ledger;
DELETE FROM chaos.effects;
DELETE FROM orchestrator.permits_returned;
DELETE FROM orchestrator.gate_changes;
DELETE FROM lane_limits.returned;
UPDATE lane_limits.limits SET running = 0;
DELETE FROM orchestrator.tasks
"""
FROZEN: LiteralString = """
WITH late AS (
    INSERT INTO chaos.ledger (execution, what, task_id, attempt, lease, token, who)
    SELECT gen_random_uuid(), what, task_id, attempt, 7, token, who
    FROM chaos.ledger
    WHERE what = 'begun'
    ORDER BY task_id
    LIMIT 1
    RETURNING at, who
),
crash AS (INSERT INTO chaos.faults SELECT at - interval '20 s', 'server crashed', '', '' FROM late)
INSERT INTO chaos.freezes SELECT at - interval '21 s', who, at - %(thawed)s::interval FROM late
"""
NAMES = {
    ":note": "(SELECT min(task_id) FROM chaos.trail WHERE type = 'chaos.note_in_thread')",
    ":book": "(SELECT min(task_id) FROM chaos.trail WHERE type = 'chaos.book')",
    ":discard": "(SELECT min(task_id) FROM chaos.trail WHERE type = 'chaos.discard')",
    ":columns": (
        "op, task_id, old_status, old_lease, old_worker, old_attempt, old_losses, new_status, new_lease,"
        " new_worker, new_attempt, new_finished_at, max_attempts, losses, said_lease, error_class, who, purpose, role"
    ),
}


class Violation(NamedTuple):
    """A change of the records, and the invariants that it breaks: the intended one first."""

    what: str
    done: str
    breaks: tuple[str, ...]


def violations() -> list[Violation]:
    """Read the possible changes."""
    _, *parts = VIOLATIONS.read_text().split("\n\n")
    found = []
    for part in parts:
        title, _, done = part.partition("\n")
        breaks, _, what = title.removeprefix("-- ").partition(": ")
        for name, meaning in NAMES.items():
            done = done.replace(name, meaning)
        found.append(Violation(what, done, tuple(breaks.split())))
    return found


@pytest.fixture(scope="module")
def lived(
    administrator: psycopg.Connection,
    server_url: str,
    template_database: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[psycopg.Connection[Any]]:
    """The records of a short run without faults."""
    with _database(administrator, template=template_database) as name:
        url = servers.url_of(server_url, name)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT orchestrator.set_home()")
            short_run.live(connection, url, tmp_path_factory.mktemp("life"))
            yield connection


def broken(connection: psycopg.Connection[Any], done: str) -> dict[str, str]:
    """Apply this to the records, without their triggers, and return the checker's result; then undo it."""
    with connection.transaction(force_rollback=True):
        if done:
            connection.execute("SET LOCAL session_replication_role = replica")
            connection.execute(done.encode())
        findings = checker.check(connection)
        checker.timelines(connection, findings)
        return {finding.name: str(finding.shown) for finding in findings if not finding.holds}


def test_a_run_without_faults_breaks_nothing(lived: psycopg.Connection[Any]) -> None:
    """Tasks of each kind and end, a key that is used twice, a set, a manual change: all invariants hold."""
    with lived.transaction(force_rollback=True):
        findings = checker.check(lived)

    assert [f"I{n:02}" for n in range(1, 19)] == [finding.name for finding in findings]
    assert [] == [(finding.name, finding.shown) for finding in findings if not finding.holds]
    assert all(finding.judged for finding in findings)


@pytest.mark.parametrize("violation", violations(), ids=lambda violation: violation.what)
def test_each_violation_is_found(lived: psycopg.Connection[Any], violation: Violation) -> None:
    """One thing is violation, and the checker names the invariant that it breaks."""
    found = broken(lived, violation.done)

    assert set(violation.breaks) <= set(found), found


@pytest.mark.parametrize(("thawed", "is_excused"), [("1 s", True), ("4 s", False)])
def test_a_process_that_was_frozen_during_a_crash_is_excused_when_it_goes_on(
    lived: psycopg.Connection[Any], thawed: str, is_excused: bool
) -> None:
    """The entry was sent, then the worker was frozen and the server crashed. The entry arrives late, and soon
    after the worker goes on."""
    with lived.transaction(force_rollback=True):
        lived.execute(FROZEN, {"thawed": thawed})
        checker.check(lived)
        found = lived.execute("SELECT is_excused, was_frozen FROM chaos.orphans").fetchall()

    assert [(is_excused, is_excused)] == found


def test_empty_records_are_no_evidence(lived: psycopg.Connection[Any]) -> None:
    """In empty records no invariant is broken. So each check needs enough items."""
    with lived.transaction(force_rollback=True):
        whole = checker.thin(checker.check(lived), 1.0)
    with lived.transaction(force_rollback=True):
        lived.execute("SET LOCAL session_replication_role = replica")
        lived.execute(EMPTY)
        findings = checker.check(lived)
        empty = checker.thin(findings, 1.0)

    # No worker was lost in the short run.
    assert ["too little to judge in I08: writes of duties"] == whole
    assert [] == [finding.name for finding in findings if not finding.holds]
    assert [f"too little to judge in {name}: {label}" for name, label, _ in checker.FLOORS] == empty


def test_every_invariant_can_be_broken() -> None:
    """A check that never fails is useless."""
    checks = {path.stem for path in checker.CHECKS.glob("*.sql")}

    assert checks == {violation.breaks[0] for violation in violations()}


def test_a_timeline_lists_the_events(lived: psycopg.Connection[Any]) -> None:
    """It has all records of a task, from the enqueue to the end."""
    with lived.transaction(force_rollback=True):
        lived.execute("INSERT INTO chaos.effects SELECT * FROM chaos.effects LIMIT 1")
        findings = checker.check(lived)
        (lines,) = checker.timelines(lived, findings).values()

    told = [line.split()[1] for line in lines]
    assert {"journal", "trail", "ledger", "effect"} == set(told)


def test_a_journal_without_a_verdict_is_in_doubt(tmp_path: Path) -> None:
    """A producer that is killed between the intent and the verdict does not know the result, and neither does the
    checker."""
    journal = Journal(tmp_path / "p1.1.jsonl")
    journal.intend(1, "INSERT", [Item("a", "chaos.note")])
    journal.conclude(1, "acknowledged", [7])
    journal.intend(2, "savepoint", [Item("b", "chaos.note"), Item("c", "chaos.note", None, False)])

    lines = list(read(tmp_path / "p1.1.jsonl"))

    assert [("a", "acknowledged", 7), ("b", "in doubt", None), ("c", "rolled back", None)] == [
        (line.token, line.verdict, line.task_id) for line in lines
    ]
