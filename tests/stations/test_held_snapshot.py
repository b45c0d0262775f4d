"""Claiming while an old snapshot keeps every dead entry of the index, on a real server.

The cost of a claim is counted in buffers, not in milliseconds: buffers are the same on every machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, LiteralString

import psycopg
import pytest

from orchestrator import claim
from orchestrator.claim import ScanPositions, scan_positions
from orchestrator.claim.batch import CLAIM, where_to_look
from orchestrator.postgres.session import Connection
from orchestrator.task.outcome import Completed, Outcome
from tests.schema.rows import one, put
from tests.stations.worker import Mate

DEAD = 24_000
LEFT = 400
BATCH = 1000
PRIORITIES = [25, 50, 75, 90]
MANY, FEW = 300, 60

FILL: LiteralString = """
INSERT INTO orchestrator.tasks_live (id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status)
SELECT nextval('orchestrator.tasks_id_seq'),
    'noop', 'default', (%(priorities)s::smallint[])[1 + n %% 4], 4, '5 minutes', 31557600000000000,
    now() - interval '1 minute' + n * interval '1 ms', 'pending'
FROM generate_series(1, %(count)s) AS n
"""


@pytest.fixture
def emptied(
    database_url: str, connection: psycopg.Connection, worker: Mate, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ScanPositions]:
    """Claim and finish very many tasks while a snapshot is held. Return the worker's memory of them. Some of the
    least urgent are left."""
    never_look_inside(monkeypatch)
    with snapshot(database_url):
        connection.execute(FILL, {"priorities": PRIORITIES, "count": DEAD + LEFT})
        connection.execute("ANALYZE orchestrator.tasks_live")
        yield drained(worker, ScanPositions(), DEAD)


@contextmanager
def snapshot(url: str) -> Iterator[psycopg.Connection]:
    """Hold a transaction open with a snapshot of now."""
    with psycopg.connect(url) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM orchestrator.queues")
        yield holder
        holder.rollback()


def drained(worker: Mate, remembered: ScanPositions, count: int) -> ScanPositions:
    """Claim and complete this number of tasks."""
    for _ in range(count // BATCH):
        found = worker.claim(batch_size=BATCH, positions=remembered)
        worker.finish_all([Outcome(task, Completed(None)) for task in found])
    # However fast this machine is.
    remembered.learn([], 1.0)
    assert remembered.is_costly
    return remembered


def buffers(worker: Mate, remembered: ScanPositions | None, *, batch_size: int = 1) -> int:
    """Return how many buffers the claim reads, and claim nothing."""
    queues = ["default"]
    where = where_to_look(queues, remembered.ranges(queues) if remembered is not None else None)
    given = {"lease": claim.new_lease(), "worker_id": worker.id, "batch_size": batch_size, **where}

    async def explain(connection: Connection) -> int:
        async with connection.transaction(force_rollback=True):
            # A statement like the others of a worker: with its settings, and planned for its parameters.
            cursor = await connection.execute(
                b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + as_bytes(CLAIM), given
            )
            row = await cursor.fetchone()
        assert row is not None
        plan: dict[str, Any] = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])

    return worker.call(explain)


def as_bytes(statement: str | bytes) -> bytes:
    return statement if isinstance(statement, bytes) else statement.encode()


@contextmanager
def locked(url: str, count: int) -> Iterator[list[int]]:
    """Lock this number of the next tasks."""
    with psycopg.connect(url) as operator:
        rows = operator.execute(
            "SELECT id FROM orchestrator.tasks_live WHERE status = 'pending' ORDER BY position, id LIMIT %s FOR UPDATE",
            [count],
        ).fetchall()
        yield [task_id for (task_id,) in rows]
        operator.rollback()


def test_with_a_memory_a_claim_passes_few_dead_entries(emptied: ScanPositions, worker: Mate) -> None:
    """It finds the same as a claim from the front, which reads all of them."""
    without, beside = buffers(worker, None), buffers(worker, emptied)
    found = worker.claim(batch_size=LEFT, positions=emptied)

    assert without > MANY
    assert beside < FEW
    assert LEFT == len(found)


def test_the_next_claim_finds_a_critical_task(
    emptied: ScanPositions, connection: psycopg.Connection, worker: Mate
) -> None:
    """With a priority that is in use, or a new one: before, between or behind the others."""
    for priority in (100, 90, 60, 89):
        task_id = put(
            connection, priority=priority, run_at=one(connection, "SELECT now()"), aging_us=31557600000000000
        )

        assert [task_id] == [task.id for task in worker.claim(batch_size=1, positions=emptied)]


def test_a_task_that_was_locked_is_found_within_a_cycle_of_slices(
    database_url: str, connection: psycopg.Connection, worker: Mate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim beside the ranges misses it; one of the looks into the ranges finds it."""
    never_look_inside(monkeypatch)
    with snapshot(database_url):
        connection.execute(FILL, {"priorities": PRIORITIES, "count": 4000})
        with locked(database_url, 3) as ids:
            remembered = drained(worker, ScanPositions(), 3000)
        assert ids == status_is(connection, "pending", ids)
        assert not {task.id for task in worker.claim(batch_size=10, positions=remembered)} & set(ids)
        look_inside_each_time(monkeypatch)

        found, looks = set[int](), 0
        while not set(ids) <= found:
            found |= {task.id for task in worker.claim(batch_size=10, positions=remembered)}
            looks += 1
            # Four stretches, in a few pieces each should this machine be slow.
            assert looks <= 4 * 8


def test_a_set_that_was_committed_late_is_found_by_one_look(
    database_url: str, connection: psycopg.Connection, worker: Mate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look goes on from claim to claim, behind the tasks that it has found; no claim waits for the next look."""
    never_look_inside(monkeypatch)
    with snapshot(database_url):
        connection.execute(FILL, {"priorities": PRIORITIES, "count": 3500})
        with locked(database_url, 500) as ids:
            remembered = drained(worker, ScanPositions(), 3000)
        # On a machine of any speed.
        monkeypatch.setattr(scan_positions, "COSTLY_SECONDS", -1.0)
        look_once(monkeypatch)

        claims = [[task.id for task in worker.claim(batch_size=50, positions=remembered)] for _ in range(11)]

    assert [*[50] * 10, 0] == [len(found) for found in claims]
    assert ids == [task_id for found in claims for task_id in found]


def status_is(connection: psycopg.Connection, status: str, ids: list[int]) -> list[int]:
    rows = connection.execute(
        "SELECT id FROM orchestrator.tasks WHERE id = ANY (%s) AND status = %s ORDER BY position, id",
        [ids, status],
    ).fetchall()
    return [task_id for (task_id,) in rows]


def never_look_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use no time for looks inside: on a slow machine one claim may be slow, and the next look due at once."""
    monkeypatch.setattr(scan_positions, "SHARE", 1e-9)


def look_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One look at everything is due, and no other while this test runs."""
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 1e10)
    monkeypatch.setattr(scan_positions, "time", later)


def look_inside_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use all the time for looks inside, from now on."""
    look_once(monkeypatch)
    monkeypatch.setattr(scan_positions, "SHARE", 1e9)


def test_after_the_snapshot_the_memory_is_forgotten(
    database_url: str, connection: psycopg.Connection, worker: Mate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The looks inside become fast, and remove dead entries. Then claims search everything again."""
    look_inside_each_time(monkeypatch)
    with snapshot(database_url):
        connection.execute(FILL, {"priorities": PRIORITIES, "count": DEAD})
        remembered = drained(worker, ScanPositions(), DEAD)
        held = buffers(worker, None)

    # A session asks anew what nobody needs any more once somebody has written something, as beats do.
    last = put(connection, priority=0)

    looks, found = 0, set[int]()
    while remembered.is_costly:
        found |= {task.id for task in worker.claim(batch_size=10, positions=remembered)}
        looks += 1
        assert looks < 1000

    assert held > MANY
    assert buffers(worker, remembered) < held / 5
    assert {last} == found


def test_each_worker_remembers_for_itself(
    database_url: str,
    connection: psycopg.Connection,
    hire: Callable[[], Mate],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Dead entries of another worker's claims slow it, too: its range grows to the front, and its claims are fast
    again."""
    never_look_inside(monkeypatch)
    first, second = hire(), hire()
    with snapshot(database_url):
        connection.execute(FILL, {"priorities": PRIORITIES, "count": DEAD})
        remembered = ScanPositions()
        for _ in range(DEAD // 3000):
            first.claim(batch_size=2900)
            second.claim(batch_size=100, positions=remembered)
        remembered.learn([], 1.0)

        without, beside = buffers(second, None), buffers(second, remembered)

    assert without > MANY
    assert beside < FEW
