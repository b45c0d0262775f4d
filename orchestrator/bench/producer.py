"""A process of producers: threads that insert tasks one by one, each on a connection and in transactions of its own.

stdin   how many threads; then a line a round: a table ("tasks" or "floor") and how many each thread inserts
stdout  a line when all are connected; then a line a round: when the first began and when the last was done
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
    tell("connected")
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
            tell(f"{min(began for began, _ in spans)} {max(ended for _, ended in spans)}")


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
