"""A seeded choice of crash points. A test of the verdict: it finds every kind of fault in manipulated tables."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from tests.conftest import migrated_database
from tests.crashpoints import all_points
from tests.crashpoints.fault_proxy import Fault, FaultProxy, Place, Point
from tests.crashpoints.verdict import violations
from tests.crashpoints.worker_runs import WORKER_SCENARIOS, Lane, WorkerScenario
from tests.patience import PATIENCE_SECONDS
from tests.tiers import long
from tests.worker.running import value

LANES, SEED = 3, 6
# A message that comes only now and then may not come in the time of the run.
MISSED_MAX = 4


@pytest.fixture
def lanes(
    administrator: psycopg.Connection, server_url: str, template_database: str, tmp_path: Path
) -> Iterator[list[Lane]]:
    """Some databases for runs side by side."""
    with ExitStack() as stack:
        urls = [
            stack.enter_context(migrated_database(administrator, server_url, template_database))
            for _ in range(LANES)
        ]
        yield [stack.enter_context(Lane.opened(url, tmp_path / str(n))) for n, url in enumerate(urls)]


@pytest.mark.parametrize("number", [10, long(40)])
def test_a_choice_of_crash_points_loses_nothing_and_repeats_nothing_without_a_cause(
    lanes: list[Lane], number: int
) -> None:
    """Cut before, cut after, killed and frozen, at messages of workers and producers: everything completes."""
    works, without_faults = all_points.find_points(lanes)
    # The same number of each fault: else its share would vary, like the number of messages, from run to run.
    draw = random.Random(SEED)  # noqa: S311 - no secret
    chosen = [
        work
        for fault in Fault
        for work in draw.sample([w for w in works if w[1] and w[1].fault is fault], number // len(Fault))
    ]

    report = all_points.run(lanes, chosen)

    assert [] == without_faults.wrong + report.wrong
    assert sum(report.struck.values()) >= number - MISSED_MAX, report.missed
    assert {fault for _, fault in report.struck} == set(Fault)


PLANTED: dict[str, LiteralString] = {
    "I1": "DELETE FROM orchestrator.tasks_done",
    "I3": "INSERT INTO watch.history (actor, task_id, old, new)"
    " SELECT actor, task_id, old, new FROM watch.history WHERE new ->> 'status' = 'claimed'",
    "I4": """UPDATE watch.history SET new = new || '{"lease": 7}' WHERE new ->> 'status' = 'completed'""",
    "I5": "INSERT INTO watch.history (actor, task_id, old, new)"
    " SELECT actor, task_id, old, NULL FROM watch.history WHERE old ->> 'status' IN ('claimed', 'running')",
    "I6 a lease is executed once": "INSERT INTO points.executions (task_id, attempt, lease)"
    " SELECT task_id, attempt, lease FROM points.executions",
    "I6 another execution has a cause": "INSERT INTO points.executions (task_id, attempt, lease)"
    " SELECT task_id, attempt, 7 FROM points.executions",
    "I6 what was completed was executed": "DELETE FROM points.executions",
    "TX": "INSERT INTO points.ledger SELECT task_id, attempt, lease FROM points.ledger",
    "I7": "INSERT INTO orchestrator.tasks_live (id, type, queue, status, lease, worker_id, claimed_at, run_at,"
    " priority, aging_us, position, attempt, max_attempts, losses, timeout)"
    " SELECT id, type, queue, 'claimed', 7, gen_random_uuid(), now(), run_at, priority, aging_us, position, attempt,"
    " max_attempts, losses, timeout FROM orchestrator.tasks_done",
}


def test_the_verdict_finds_every_kind_of_fault(lanes: list[Lane]) -> None:
    """It finds nothing in the tables of a run without a fault, and it finds each planted fault under its name."""
    lane = lanes[0]
    (own,) = (run for run in WORKER_SCENARIOS if run.name == "own")
    assert [] == own.play(lane).faults
    connection = lane.environment.connection
    ids = [value(connection, "SELECT id FROM orchestrator.tasks")]

    found = {}
    for rule, fault in PLANTED.items():
        with connection.transaction(force_rollback=True):
            connection.execute("ALTER TABLE orchestrator.tasks_live DISABLE TRIGGER USER")
            connection.execute(fault)
            found[rule] = [line for line in violations(connection, ids) if line.startswith(rule)]

    assert [] == [rule for rule, lines in found.items() if not lines]


def test_an_effect_outside_of_the_transaction_is_found(lanes: list[Lane]) -> None:
    """A handler commits its entry, and its worker is killed before the task completes. Then there are two entries."""
    lane = lanes[0]
    place = Place("outcomes", ending=False, number=1, letter="startup", begins=True)

    result = WorkerScenario("own_leaking").play(lane, Point(place, Fault.KILL))

    assert result.reached
    assert [line for line in result.faults if line.startswith("TX")]


@pytest.mark.parametrize(("fault", "rows"), [(Fault.CUT_BEFORE, 0), (Fault.CUT_AFTER, 1)])
def test_the_crash_happens_at_the_chosen_message(
    fault: Fault, rows: int, database_url: str, connection: psycopg.Connection
) -> None:
    """CUT BEFORE: the server does not receive it. CUT AFTER: the server has executed it, and the client gets no
    answer."""
    connection.execute("CREATE TABLE struck (n integer)")
    third = Place("producer", ending=False, number=3, letter="Q", begins=True)

    with FaultProxy(database_url, Point(third, fault)) as proxy:
        proxy.aim(0)
        client = psycopg.connect(proxy.url, autocommit=True)
        client.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            client.execute("INSERT INTO struck VALUES (1)")

    assert (rows, True) == (
        value(connection, "SELECT count(*) FROM struck"),
        proxy.struck.wait(PATIENCE_SECONDS),
    )
