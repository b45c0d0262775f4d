"""Four workers run 10,000 tasks while manual changes alter their priorities: no statement fails, no task runs twice.

An UPDATE that moves a row between leaves makes every concurrent writer of that row fail with 40001, even in READ
COMMITTED. That is why workers finish by DELETE + INSERT. Each worker here is the real stations on a worker's session,
in a thread of its own, with a worker's batches and no handlers. A wait for the locks of a manual change is no failure
(55P03, tried again as by a worker); every other error is.
"""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

import psycopg
import pytest
from psycopg import errors

from orchestrator.task.outcome import Completed, Outcome, Released
from tests.stations.worker import Mate

TASKS = 10_000
WORKERS = 4
BATCH_SIZE = 200
SECONDS_MAX = 600

FILL = """
INSERT INTO orchestrator.tasks (id, type, queue, priority, max_attempts, timeout, aging_us, run_at)
SELECT nextval('orchestrator.tasks_id_seq'),
    'noop', 'default', 50, 4, '5 minutes', 31557600000000000, now() FROM generate_series(1, %s)
"""
T = TypeVar("T")


@dataclass
class Work:
    """What a worker did: which tasks it ran and completed, and which of its statements failed, by SQLSTATE."""

    ran: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    failed: Counter[str] = field(default_factory=Counter)


@pytest.mark.long
def test_manual_changes_and_four_workers_do_not_disturb_each_other(
    connection: psycopg.Connection, database_url: str
) -> None:
    """No claim, no finish and no manual UPDATE fails, and every task is completed exactly once."""
    connection.execute(FILL, [TASKS])
    done = threading.Event()

    with ThreadPoolExecutor(WORKERS + 1) as pool:
        operator = pool.submit(change_priorities, database_url, done)
        running = [pool.submit(drain, database_url) for _ in range(WORKERS)]
        try:
            works = [worker.result(SECONDS_MAX) for worker in running]
        finally:
            done.set()
        changed = operator.result(SECONDS_MAX)

    assert {"55P03"} >= {sqlstate for work in works for sqlstate in work.failed}
    assert len(changed) > 1
    assert {1} == set(Counter(task_id for work in works for task_id in work.ran).values())
    assert TASKS == len({task_id for work in works for task_id in work.completed})
    assert [("completed", 1, TASKS)] == connection.execute(
        "SELECT status, attempt, count(*) FROM orchestrator.tasks GROUP BY status, attempt"
    ).fetchall()


def change_priorities(database_url: str, done: threading.Event) -> list[int]:
    """Change the priority of all that waits, over and over, each time in one statement; return how many each time."""
    changed: list[int] = []
    with psycopg.connect(database_url, autocommit=True) as connection:
        while not done.is_set():
            cursor = connection.execute(
                "UPDATE orchestrator.tasks SET priority = 25 + %s * (id %% 2) WHERE status = 'pending'",
                [50 * (len(changed) % 2)],
            )
            changed.append(cursor.rowcount)
    return changed


def drain(database_url: str) -> Work:
    """Claim, begin and finish until nothing is left for anybody."""
    work = Work()
    with closing(Mate(database_url)) as worker:
        while worker.remaining():
            for _ in range(20):
                # Even where it skips what is locked, PostgreSQL waits for who has just made a newer version of it.
                tasks = patiently(work, lambda: worker.claim(batch_size=BATCH_SIZE))
                begun = patiently(work, lambda: worker.begin(tasks)) if tasks else []  # noqa: B023 - called at once
                ran = {task.id for task in begun}
                work.ran += ran
                # What somebody has locked does not begin, and goes back.
                ends = [Outcome(task, Completed(None) if task.id in ran else Released()) for task in tasks]
                work.completed += [task_id for task_id in finish(worker, ends, work) if task_id in ran]
    return work


def patiently(work: Work, step: Callable[[], T]) -> T:
    """Take a step, and again for as long as somebody's lock is in the way; ends with that lock."""
    while True:
        try:
            return step()
        except errors.LockNotAvailable as error:
            work.failed[str(error.sqlstate)] += 1


def finish(worker: Mate, left: list[Outcome], work: Work) -> list[int]:
    """Write these ends: in one batch, and what is locked then as it becomes free."""
    written: list[int] = []
    try:
        written += worker.finish_all(left)
    except errors.LockNotAvailable as error:
        work.failed[str(error.sqlstate)] += 1
        while left:
            accepted, left = patiently(work, lambda: worker.finish_unlocked(left))  # noqa: B023 - called at once
            written += accepted
    return written
