"""The throughput while a transaction stays open. Its snapshot keeps the dead rows of finished tasks.

A worker works off a backlog of four priorities. Then a transaction takes a snapshot and stays open. Meanwhile tasks
arrive in sets at half of that rate, and a critical task now and then, whose start is timed. At the end the worker works
off such a backlog again, with the transaction still open.
"""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from statistics import median
from typing import Any

import psycopg

from orchestrator.bench import backlog
from orchestrator.bench.environment import Environment
from orchestrator.bench.measures.pickup import Sent, percentile, stamps, waits
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round
from orchestrator.bench.tasks import stamp
from orchestrator.bench.workers import Workers
from orchestrator.postgres import connect, statement

SQL = statement.sections(__file__, "snapshot.sql")
# low, normal, high, critical
PRIORITIES = [25, 50, 75, 100]
LOAD_EVERY_SECONDS = 0.05
CRITICAL_EVERY_SECONDS = 0.05
GOALS = (Goal(least=0.9), Goal(of="critical p99 ms", most=500.0))


def held(environment: Environment) -> Iterator[Result]:
    """Work off a backlog, hold a snapshot under load, work off another."""
    connection, seconds = environment.connection, environment.sizes.snapshot_seconds
    line = f"snapshot held, {seconds:.0f} s"
    backlog.clear(connection)
    backlog.pause(connection)
    with Workers(environment) as workers:
        environment.say(f"{line}: before")
        begin = [mixed(environment, workers) for _ in range(environment.sizes.rounds)]
        rate = median(r.figure for r in begin) / 2
        environment.say(f"{line}: {rate:,.0f} tasks/s")
        with snapshot(environment.info):
            backlog.resume(connection)
            with load(environment.info, rate) as offered:
                sent = criticals(environment, seconds)
            times = waits(sent, stamps(environment, sent))
            # If the worker has become slow, the remaining tasks are part of the next backlog.
            with suppress(backlog.TooSlow):
                backlog.wait_until_empty(connection, workers)
            backlog.pause(connection)
            environment.say(f"{line}: after")
            end = [mixed(environment, workers) for _ in range(environment.sizes.rounds)]
    backlog.clear(connection)
    yield Result(
        line=line, unit="tasks/s", ours=tuple(end), floor=tuple(begin), floor_is="ours before", goals=GOALS,
        tasks=environment.sizes.work_off,
        details={"critical p50 ms": percentile(times, 0.5), "critical p99 ms": percentile(times, 0.99),
                 "offered /s": sum(offered) / seconds},
    )  # fmt: skip


def mixed(environment: Environment, workers: Workers) -> Round:
    """Work off a backlog of all priorities. The tables stay as they are."""
    backlog.fill(environment.connection, "bench.nothing", environment.sizes.work_off, priorities=PRIORITIES)
    return backlog.work_off(environment, workers, environment.sizes.work_off)


@contextmanager
def snapshot(info: str) -> Iterator[None]:
    """Hold a transaction open that has taken a snapshot."""
    with closing(connect.open_sync(info)) as connection:
        connection.execute(SQL["begin"])
        connection.execute(SQL["look"])
        yield
        connection.execute(SQL["end"])


@contextmanager
def load(info: str, rate: float) -> Iterator[list[int]]:
    """Add tasks at a steady rate during the block. Yield the list of the numbers added."""
    offered, stop = list[int](), threading.Event()

    def put(connection: psycopg.Connection[Any]) -> None:
        due, owed = time.monotonic(), 0.0
        while not stop.wait(max(0.0, due - time.monotonic())):
            # A late turn does not add the tasks that it missed: the load is half of the rate, never more.
            due, owed = max(due + LOAD_EVERY_SECONDS, time.monotonic()), owed % 1 + rate * LOAD_EVERY_SECONDS
            given = {"type": "bench.nothing", "tasks": int(owed), "priorities": PRIORITIES}
            connection.execute(SQL["load"], given)
            offered.append(int(owed))

    with closing(connect.open_sync(info)) as connection, ThreadPoolExecutor(1) as threads:
        putting = threads.submit(put, connection)
        try:
            yield offered
        finally:
            stop.set()
        putting.result()


def criticals(environment: Environment, seconds: float) -> dict[int, Sent]:
    """Enqueue a critical task now and then. Return when each was committed."""
    sender = stamp.using(environment.connection, priority="critical")
    sent, until = dict[int, Sent](), time.monotonic() + seconds
    while time.monotonic() < until:
        called = time.monotonic_ns()
        task_id = sender.enqueue().id
        sent[task_id] = Sent(called, time.monotonic_ns())
        time.sleep(CRITICAL_EVERY_SECONDS)
    return sent
