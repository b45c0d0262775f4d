"""A process of producers: threads that insert tasks one by one, each thread on its own connection, each task in its own
transaction; or as many coroutines of an application, which enqueue through its pool.

stdin   the number of producers; then a line per round: what they do ("insert", "floor" or "aenqueue") and the number of
        tasks of each
stdout  a line when all are connected; then a line per round: the time of the first begin and of the last end
"""

import asyncio
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg

from orchestrator.app import Orchestrator
from orchestrator.bench import floors
from orchestrator.config import PREFIX
from orchestrator.postgres import connect, statement

INSERTS = {"insert": statement.load(__file__, "producer.sql"), "floor": floors.SQL["insert"]}
TYPE = "bench.nothing"
GIVEN = {"type": TYPE, "payload": "{}"}


def main() -> None:
    """Connect, then follow the commands until standard input ends."""
    size = int(sys.stdin.readline())
    info = os.environ[f"{PREFIX}DATABASE_URL"]
    app = Orchestrator(info)
    connections = [connect.open_sync(info) for _ in range(size)]
    together = threading.Barrier(size)

    def produce(connection: psycopg.Connection[Any], insert: bytes, number: int) -> tuple[int, int]:
        together.wait()
        began = time.monotonic_ns()
        for _ in range(number):
            connection.execute(insert, GIVEN)
        return began, time.monotonic_ns()

    with ThreadPoolExecutor(size) as threads, asyncio.Runner() as runner:
        runner.run(produce_on_loop(app, size, 1))
        write_line("connected")
        while words := sys.stdin.readline().split():
            number = int(words[1])
            if words[0] == "aenqueue":
                spans = [runner.run(produce_on_loop(app, size, number))]
            else:
                insert = INSERTS[words[0]]
                spans = list(threads.map(produce, connections, [insert] * size, [number] * size))
            write_line(f"{min(began for began, _ in spans)} {max(ended for _, ended in spans)}")
        runner.run(app.aclose())


async def produce_on_loop(app: Orchestrator, size: int, number: int) -> tuple[int, int]:
    """Enqueue from many coroutines at the same time."""

    async def produce() -> None:
        for _ in range(number):
            await app.aenqueue(TYPE, {})

    began = time.monotonic_ns()
    await asyncio.gather(*(produce() for _ in range(size)))
    return began, time.monotonic_ns()


def write_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
