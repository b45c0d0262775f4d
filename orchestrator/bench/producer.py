"""A process of producers: threads that insert tasks one by one, each thread on its own connection, each task in its own
transaction.

stdin   the number of threads; then a line per round: a table ("tasks" or "floor") and the number of tasks per thread
stdout  a line when all threads are connected; then a line per round: the time of the first begin and of the last end
"""

import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from orchestrator.bench import floors
from orchestrator.config import PREFIX
from orchestrator.postgres import connect, statement

INSERTS = {"tasks": statement.load(__file__, "producer.sql"), "floor": floors.SQL["insert"]}
GIVEN = {"type": "bench.nothing", "payload": "{}"}


def main() -> None:
    """Connect, then follow the commands until standard input ends."""
    size = int(sys.stdin.readline())
    info = os.environ[f"{PREFIX}DATABASE_URL"]
    connections = [connect.open_sync(info) for _ in range(size)]
    write_line("connected")
    together = threading.Barrier(size)
    with ThreadPoolExecutor(size) as threads:
        while words := sys.stdin.readline().split():
            insert, inserts = INSERTS[words[0]], int(words[1])

            def produce(
                connection: psycopg.Connection[Any], insert: bytes = insert, inserts: int = inserts
            ) -> tuple[int, int]:
                together.wait()
                began = time.monotonic_ns()
                for _ in range(inserts):
                    connection.execute(insert, GIVEN)
                return began, time.monotonic_ns()

            spans = list(threads.map(produce, connections))
            write_line(f"{min(began for began, _ in spans)} {max(ended for _, ended in spans)}")


def write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
