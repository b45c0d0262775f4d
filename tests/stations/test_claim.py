"""Claiming: in which order, how many, and never a task of another worker."""

import json
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from psycopg.types.json import Jsonb

from orchestrator.task.claimed import Claimed
from orchestrator.task.outcome import Outcome, Released
from tests.clock import Clock
from tests.schema.rows import insert, one, put, read
from tests.stations.worker import Mate


def ids(tasks: list[Claimed]) -> list[int]:
    return [task.id for task in tasks]


def claim_singly(worker: Mate, count: int) -> list[int]:
    """Claim one at a time; Python defines the order within one batch."""
    return [task.id for _ in range(count) for task in worker.claim(batch_size=1)]


def test_a_higher_priority_is_claimed_first(connection: psycopg.Connection, worker: Mate) -> None:
    """However long the others have waited: the default is strict priority."""
    low, high, normal = (insert(connection, type="mail", priority=priority) for priority in (25, 75, 50))

    assert [high, normal, low] == claim_singly(worker, 3)


def test_within_a_priority_the_older_is_claimed_first(connection: psycopg.Connection, worker: Mate) -> None:
    """First in, first out, by run_at, with any ids."""
    now = one(connection, "SELECT now()")
    ages = (1, 3, 2)
    young, old, middle = (insert(connection, type="mail", run_at=now - timedelta(hours=age)) for age in ages)

    assert [old, middle, young] == claim_singly(worker, 3)


def test_ids_decide_between_equals(connection: psycopg.Connection, worker: Mate, clock: Clock) -> None:
    """Tasks with the same time, such as those of one transaction, run in the order of their creation."""
    tasks = [insert(connection, type="mail") for _ in range(5)]

    assert tasks == claim_singly(worker, 5)


def test_a_batch_comes_in_the_order_of_execution(connection: psycopg.Connection, worker: Mate) -> None:
    """UPDATE … RETURNING promises no order; the claim does."""
    tasks = [insert(connection, type="mail", priority=priority) for priority in range(20)]

    assert tasks[::-1] == ids(worker.claim(batch_size=20))


def test_aging_lets_a_low_priority_task_run(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """With an hour per point, 25 points of priority equal 25 hours of waiting, and no more."""
    connection.execute("UPDATE orchestrator.queues SET aging = '1 hour' WHERE name = 'default'")
    low = insert(connection, type="mail", priority=25)
    clock.advance(hours=24)
    soon = insert(connection, type="mail", priority=50)
    clock.advance(hours=2)
    late = insert(connection, type="mail", priority=50)

    assert [soon, low, late] == claim_singly(worker, 3)


def test_a_paused_queue_gives_no_task_at_once(connection: psycopg.Connection, worker: Mate) -> None:
    """The claim reads the state; no worker needs a message."""
    tasks = [insert(connection, type="mail") for _ in range(2)]
    assert tasks[:1] == claim_singly(worker, 1)
    connection.execute("SELECT orchestrator.pause_queue('default')")

    assert [] == worker.claim()

    connection.execute("SELECT orchestrator.resume_queue('default')")
    assert tasks[1:] == claim_singly(worker, 1)


def test_a_paused_queue_does_not_stop_the_others(connection: psycopg.Connection, worker: Mate) -> None:
    """A claim skips only the paused one among its queues."""
    insert(connection, type="mail", queue="held")
    free = insert(connection, type="mail", queue="free")
    connection.execute("SELECT orchestrator.pause_queue('held')")

    assert [free] == ids(worker.claim("held", "free"))


def test_a_draining_queue_gives_its_tasks(connection: psycopg.Connection, worker: Mate) -> None:
    """A draining queue refuses new tasks and finishes the old ones."""
    task = insert(connection, type="mail")
    connection.execute("SELECT orchestrator.drain_queue('default')")

    assert [task] == ids(worker.claim())


def test_the_first_queue_is_served_first(connection: psycopg.Connection, worker: Mate) -> None:
    """In the order of the call, not of the table of queues: the caller's rotation relies on it."""
    names = ["c", "a", "b"]
    connection.execute("INSERT INTO orchestrator.queues (name) VALUES ('a'), ('b'), ('c')")
    tasks = {queue: put(connection, queue=queue) for queue in sorted(names)}

    served = [worker.claim(*names[n:], *names[:n], batch_size=1) for n in range(3)]

    assert [[tasks[queue]] for queue in names] == [ids(batch) for batch in served]


def test_two_backlogged_queues_are_served_alike(connection: psycopg.Connection, worker: Mate) -> None:
    """A worker that rotates its queues at each claim serves both within 20 %, with full slots or not."""
    backlog(connection, "a", 500)
    backlog(connection, "b", 500)
    queues = ["a", "b"]

    counts = {"a": 0, "b": 0}
    for n in range(40):
        for task in worker.claim(*queues, batch_size=1 + n // 2 % 7):
            counts[task.queue] += 1
        queues.append(queues.pop(0))

    assert 0.8 < counts["a"] / counts["b"] < 1.25


def test_a_queue_listed_first_does_not_starve_the_second(
    connection: psycopg.Connection, worker: Mate
) -> None:
    """A backlog of more urgent tasks in one queue delays a task of another queue by one claim."""
    backlog(connection, "first", 500)
    task = put(connection, queue="second", priority=0)

    assert task not in ids(worker.claim("first", "second", batch_size=10))
    assert task == worker.claim("second", "first", batch_size=10)[0].id


def test_the_limit_counts_over_all_queues(connection: psycopg.Connection, worker: Mate) -> None:
    """The next queue gets the slots that the first leaves, and not one more."""
    backlog(connection, "a", 4)
    backlog(connection, "b", 20)
    backlog(connection, "c", 20)

    assert ["a"] * 4 + ["b"] * 6 == [task.queue for task in worker.claim("a", "b", "c", batch_size=10)]


def test_a_limit_counts_for_its_queue(connection: psycopg.Connection, worker: Mate) -> None:
    """No queue gives more than its limit, even if slots stay free, and all together give no more than requested."""
    for queue in ("a", "b", "c"):
        backlog(connection, queue, 20)

    first = worker.claim("a", "b", "c", batch_size=10, limits=[1, 4, 2])
    second = worker.claim("a", "b", "c", batch_size=10, limits=[8, 8, 8])
    assert ["a"] + ["b"] * 4 + ["c"] * 2 == [task.queue for task in first]
    assert ["a"] * 8 + ["b"] * 2 == [task.queue for task in second]


def test_a_large_payload_comes_only_with_a_small_claim(connection: psycopg.Connection, worker: Mate) -> None:
    """A claim of a thousand must not return a thousand times 256 kB. A claim of one returns any task."""
    body = Jsonb({"noise": secrets.token_hex(100_000)})
    large = put(connection, payload=body)
    small = put(connection, payload=Jsonb({"n": 1}))

    first, second = worker.claim(batch_size=1000)
    worker.finish_all([Outcome(task, Released()) for task in (first, second)])
    (alone,) = worker.claim(batch_size=1)

    assert [(large, ""), (small, '{"n": 1}')] == [(first.id, first.payload), (second.id, second.payload)]
    assert (large, 200_000) == (alone.id, len(json.loads(alone.payload)["noise"]))


def test_ten_workers_and_two_tasks(connection: psycopg.Connection, hire: Callable[[], Mate]) -> None:
    """Each is claimed by one worker, once, with any number of concurrent claims."""
    mates = [hire() for _ in range(10)]
    for _ in range(10):
        tasks = [put(connection) for _ in range(2)]

        with ThreadPoolExecutor(len(mates)) as pool:
            claimed = [task for batch in pool.map(lambda mate: mate.claim(), mates) for task in batch]

        assert tasks == sorted(ids(claimed))
        assert {(task.id, task.lease) for task in claimed} == set(
            connection.execute("SELECT id, lease FROM orchestrator.tasks_live WHERE id = ANY(%s)", [tasks])
        )


def test_many_workers_share_a_backlog(connection: psycopg.Connection, hire: Callable[[], Mate]) -> None:
    """Concurrent claims get different tasks, and together all of them."""
    backlog(connection, "default", 400)
    mates = [hire() for _ in range(8)]

    with ThreadPoolExecutor(len(mates)) as pool:
        batches = list(pool.map(claim_all, mates))

    claimed = [task_id for batch in batches for task_id in batch]
    assert 400 == len(claimed) == len(set(claimed))


def claim_all(worker: Mate) -> list[int]:
    """Claim until no task is left; ends with the backlog."""
    found: list[int] = []
    while batch := worker.claim(batch_size=7):
        found += ids(batch)
    return found


def test_each_claim_has_a_lease_of_its_own(connection: psycopg.Connection, worker: Mate) -> None:
    """A random 63-bit number for each statement, the same for all its tasks, which cannot be guessed or repeated."""
    backlog(connection, "default", 40)
    batches = [worker.claim(batch_size=2) for _ in range(20)]

    leases = [{task.lease for task in batch} for batch in batches]

    assert all(len(lease) == 1 for lease in leases)
    assert 20 == len(set().union(*leases))
    assert all(0 <= lease < 2**63 for lease in set().union(*leases))
    # None of 20 above 2⁵⁷ would happen once in 10³⁶ runs.
    assert max(set().union(*leases)) > 2**57


def test_a_claim_counts_the_attempt_and_signs(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """The row names the worker, the lease and the moment, and nothing of an earlier attempt's start."""
    task_id = put(connection, attempt=1, started_at=clock.now - timedelta(hours=1))

    task = worker.claim_one()

    assert 2 == task.attempt
    columns = read(connection, task_id, "status", "attempt", "worker_id", "lease", "claimed_at", "started_at")
    assert ("claimed", 2, worker.id, task.lease, clock.now, None) == columns


def test_a_locked_task_is_passed_over(
    connection: psycopg.Connection, database_url: str, worker: Mate
) -> None:
    """An operator's open transaction on a row delays no claim."""
    locked, free = (put(connection, priority=priority) for priority in (75, 50))
    with psycopg.connect(database_url) as operator:
        operator.execute("UPDATE orchestrator.tasks SET priority = 80 WHERE id = %s", [locked])
        assert [free] == ids(worker.claim())

    assert [locked] == ids(worker.claim())


def test_nothing_is_claimed_before_its_time(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """A future task waits for its moment, and for the sweep that frees it."""
    task = insert(connection, type="mail", run_at=clock.now + timedelta(seconds=10))
    clock.advance(seconds=9)
    worker.sweep()
    assert [] == worker.claim()

    clock.advance(seconds=1)
    worker.sweep()

    assert [task] == ids(worker.claim())


@pytest.mark.parametrize(
    ("error", "put_back"),
    [
        (None, None),
        ({}, 0),
        ({"put_back": 3}, 3),
        ({"put_back": "often"}, 0),
        ({"put_back": 10**12}, 0),
        ({"put_back": 1.5}, 0),
        ({"put_back": []}, 0),
        ([1], 0),
    ],
)
def test_no_written_error_breaks_a_claim(
    connection: psycopg.Connection, worker: Mate, error: object, put_back: int | None
) -> None:
    """It has a past; how often it was put back is read only where that is a number."""
    put(connection, error=None if error is None else Jsonb(error))

    assert put_back == worker.claim_one().put_back


def test_a_dead_worker_claims_nothing(connection: psycopg.Connection, worker: Mate) -> None:
    """Who was declared dead and does not know it yet would lose again what it claims."""
    put(connection)
    connection.execute("UPDATE orchestrator.workers SET state = 'dead' WHERE id = %s", [worker.id])

    assert [] == worker.claim()


def test_a_publication_for_all_tables_breaks_nothing(connection: psycopg.Connection, worker: Mate) -> None:
    """Every table that is updated or deleted from has a key to be replicated by."""
    connection.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    task = put(connection)

    assert [task] == ids(worker.begin(worker.claim()))


def backlog(connection: psycopg.Connection, queue: str, count: int) -> None:
    """Fill a queue with ready tasks."""
    connection.execute(
        "INSERT INTO orchestrator.tasks (id, type, queue, priority, max_attempts, timeout, aging_us, run_at)"
        " SELECT nextval('orchestrator.tasks_id_seq'),"
        " 'mail', %s, 50, 4, '5 minutes', 0, now() FROM generate_series(1, %s)",
        [queue, count],
    )


def test_a_claim_returns_how_long_the_task_has_waited(
    connection: psycopg.Connection, worker: Mate, clock: Clock
) -> None:
    """From when it could run, by the database's clock; never less than nothing, and however long; and its trace."""
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    ages = {
        put(connection, run_at=clock.now - timedelta(seconds=seconds)): seconds for seconds in (90.5, 0, -90)
    }
    ancient = put(connection, run_at="0044-03-15 BC", trace_context=Jsonb(trace))

    tasks = {task.id: task for task in worker.claim()}

    waited = {task_id: task.waited_seconds for task_id, task in tasks.items()}

    assert {task_id: max(0, seconds) for task_id, seconds in ages.items()} == {
        task_id: seconds for task_id, seconds in waited.items() if task_id != ancient
    }
    assert waited[ancient] > 2000 * 365 * 86400
    assert trace == json.loads(tasks[ancient].trace_context or "null")
