"""Several worker processes, told to stop and killed at random, each followed by another, until all tasks are done.

    python -m tests.worker.storm --tasks 10000 --signals 60

Half of the tasks write into a ledger in the transaction that completes them, half write on their own and return.
"""

import argparse
import random
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import LiteralString

import psycopg

from orchestrator.schema import migrate
from tests import servers
from tests.patience import eventually
from tests.worker.processes import Process, worker
from tests.worker.running import value

WORKERS = 4
SETTINGS: dict[str, str] = {"ORCHESTRATOR_TRANSACTION_POOL_SIZE": "5"}

TABLES: LiteralString = """
CREATE TABLE ledger (task_id bigint NOT NULL, attempt integer NOT NULL);
CREATE TABLE journal (task_id bigint NOT NULL, attempt integer NOT NULL)
"""
ENQUEUE: LiteralString = """
INSERT INTO orchestrator.tasks (type, max_attempts)
SELECT (ARRAY['shop.book', 'shop.book_in_thread', 'shop.jot', 'shop.jot_in_thread'])[1 + n %% 4], 1000
FROM generate_series(1, %s) AS n
"""


@dataclass
class Storm:
    """What happened."""

    kills: int
    stops: int
    lost: int
    seconds: float


def storm(url: str, directory: Path, *, tasks: int, signals: int, seed: int, seconds: float) -> Storm:
    """Let a storm pass over so many tasks; everything must be done when it is over, within the time given."""
    dice, numbers, begun = random.Random(seed), count(1), time.monotonic()  # noqa: S311 - no secret
    with psycopg.connect(url, autocommit=True) as connection, ExitStack() as crew:

        def hire() -> Process:
            return crew.enter_context(worker(url, directory / f"{next(numbers)}.log", "-c", "8", **SETTINGS))

        connection.execute(TABLES)
        connection.execute(ENQUEUE, [tasks])
        hired = [hire() for _ in range(WORKERS)]
        stops, ending = 0, list[Process]()
        for n in range(1, signals + 1):
            enough = n * tasks * 9 // (10 * (signals + 1))
            eventually(partial(reached, connection, enough), "some are done", seconds=seconds)
            victim = hired.pop(dice.randrange(WORKERS))
            number = dice.choice((signal.SIGTERM, signal.SIGKILL))
            for _ in range(dice.choice((1, 1, 2)) if number is signal.SIGTERM else 1):
                victim.signal(number)
            if number is signal.SIGTERM:
                stops += 1
                ending.append(victim)
            hired.append(hire())
        eventually(lambda: completed(connection) == tasks, "all are done", seconds=seconds)
        for process in hired:
            process.signal(signal.SIGTERM)
        for process in (*ending, *hired):
            # One that is still being loaded when it is told to stop just ends.
            assert 0 == process.wait() or not process.said("worker started"), process.log
        lost = int(value(connection, "SELECT count(*) FROM orchestrator.attempts WHERE outcome = 'lost'"))
        check(connection, tasks)
    return Storm(signals - stops, stops, lost, time.monotonic() - begun)


def completed(connection: psycopg.Connection) -> int:
    return int(value(connection, "SELECT count(*) FROM orchestrator.tasks_done WHERE status = 'completed'"))


def reached(connection: psycopg.Connection, enough: int) -> bool:
    return completed(connection) >= enough


def check(connection: psycopg.Connection, tasks: int) -> None:
    """See each effect once where it was committed with its task, else at least once; and nothing left behind."""
    ledger = value(connection, "SELECT ARRAY[count(*), count(DISTINCT task_id)] FROM ledger")
    journal = value(connection, "SELECT ARRAY[count(*), count(DISTINCT task_id)] FROM journal")
    written = connection.execute("SELECT task_id FROM ledger UNION SELECT task_id FROM journal").fetchall()
    assert [tasks // 2, tasks // 2] == ledger
    assert journal[0] >= journal[1] == tasks // 2
    assert tasks == len(written)
    assert [("completed",)] == connection.execute("SELECT DISTINCT status FROM orchestrator.tasks").fetchall()
    assert 0 == value(connection, "SELECT count(*) FROM orchestrator.tasks_live")


def main() -> None:
    """Let a storm pass over a server of its own, and say what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--signals", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    with servers.temporary_directory() as directory:
        server = servers.Server(servers.binaries(servers.choice()), directory / "server").start()
        try:
            migrate.upgrade(server.url())
            passed = storm(
                server.url(),
                directory,
                tasks=asked.tasks,
                signals=asked.signals,
                seed=asked.seed,
                seconds=600.0,
            )
        finally:
            server.close()
    sys.stdout.write(f"seed {asked.seed}: {passed}\n")


if __name__ == "__main__":
    main()
