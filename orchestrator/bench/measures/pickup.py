"""The time from the end of the producer's call, when its commit is done, to the start of the handler.

Producer and handler read the same clock, CLOCK_MONOTONIC of this machine. The producer reads it before and after its
call. The handler reads it first of all and returns the value. The floor reads it when the claim's answer has arrived.
The details also give the time from the start of the call, which includes the commit.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Literal

from orchestrator.bench import backlog, floors
from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns
from orchestrator.bench.tasks import stamp
from orchestrator.bench.workers import Workers
from orchestrator.demo.workers import spawned
from orchestrator.postgres import connect, statement

STAMPS = statement.load(__file__, "pickup.sql")
EVERY_SECONDS = 0.020
PATIENCE_SECONDS = 30.0
FLOOR_IS = "LISTEN, claim one"
# Rate: number of producers, each on its own connection.
STEADY = {200: 1, 2_000: 8}
STEADY_GOALS = (Goal(of="ours", most=5.0), Goal(of="p99 ms", most=50.0))


class PickupLost(NotMeasured):
    """A task did not finish, so its pickup has no time."""


@dataclass(frozen=True, slots=True)
class Sent:
    """When a producer called, and when the call returned after the commit: nanoseconds of the shared clock."""

    called: int
    returned: int


def idle(environment: Environment) -> Iterator[Result]:
    """Enqueue one task every 20 ms for a worker that has no other task."""
    line, all_times, whole = "pickup, idle worker", list[float](), list[float]()
    probes = max(1, environment.sizes.probes // environment.sizes.rounds)

    def ours() -> Round:
        before = environment.meter.read(workers.pids)
        sent = paced(environment, tasks=probes, every_seconds=EVERY_SECONDS)
        started = stamps(environment, sent)
        times = waits(sent, started)
        all_times.extend(times)
        whole.extend(waits(sent, started, since="called"))
        return Round(median(times), environment.meter.since(before, workers.pids))

    backlog.clear(environment.connection)
    backlog.resume(environment.connection)
    with Workers(environment) as workers:
        own, least = by_turns(
            environment, line, ours, lambda: Round(median(floor_waits(environment, probes)))
        )
    backlog.clear(environment.connection)
    p99 = percentile(all_times, 0.99)
    yield Result(
        line=line, unit="ms", ours=own, floor=least, floor_is=FLOOR_IS, tasks=probes,
        goals=(Goal(most=1.4), Goal(of="p99 / p50", most=4.0)),
        details={"p99 ms": p99, "p99 / p50": p99 / median(all_times), "from the call ms": median(whole)},
    )  # fmt: skip


def steady(environment: Environment) -> Iterator[Result]:
    """Enqueue at steady rates."""
    for rate, producers in STEADY.items():
        line = f"pickup, {rate:,} tasks/s"
        environment.say(line)
        backlog.clear(environment.connection)
        backlog.resume(environment.connection)
        every_seconds, tasks = (
            producers / rate,
            max(1, int(rate * environment.sizes.steady_seconds / producers)),
        )
        with Workers(environment) as workers:
            before, began = environment.meter.read(workers.pids), time.monotonic()
            sent = paced_by(producers, environment, tasks=tasks, every_seconds=every_seconds)
            lasted = time.monotonic() - began
            started = stamps(environment, sent)
            times = waits(sent, started)
            spent = environment.meter.since(before, workers.pids)
        yield Result(
            line=line, unit="ms", ours=(Round(median(times), spent),), goals=STEADY_GOALS, tasks=len(sent),
            details={"p99 ms": percentile(times, 0.99), "enqueued /s": len(sent) / lasted,
                     "from the call ms": median(waits(sent, started, since="called"))},
        )  # fmt: skip
    backlog.clear(environment.connection)


def paced_by(
    producers: int, environment: Environment, *, tasks: int, every_seconds: float
) -> dict[int, Sent]:
    """Let several producers enqueue at this pace, each `tasks` tasks. They start one after the other."""
    stop = threading.Event()
    with ThreadPoolExecutor(producers) as threads:
        try:
            shares = [
                threads.submit(
                    paced,
                    environment,
                    tasks=tasks,
                    every_seconds=every_seconds,
                    late=n / producers,
                    stop=stop,
                )
                for n in range(producers)
            ]
            return {task_id: at for share in shares for task_id, at in share.result().items()}
        finally:
            stop.set()


def paced(
    environment: Environment,
    *,
    tasks: int,
    every_seconds: float,
    late: float = 0.0,
    stop: threading.Event | None = None,
) -> dict[int, Sent]:
    """Enqueue tasks at a pace, on a connection of its own. `late` delays the first by this share of an interval. Return
    the times of each."""
    sent, stop = {}, stop or threading.Event()
    with closing(connect.open_sync(environment.info)) as connection:
        sender = stamp.using(connection)
        due = time.monotonic() + late * every_seconds
        for _ in range(tasks):
            if stop.wait(max(0.0, due - time.monotonic())):
                break
            called = time.monotonic_ns()
            task_id = sender.enqueue().id
            sent[task_id] = Sent(called, time.monotonic_ns())
            due += every_seconds
    return sent


def floor_waits(environment: Environment, probes: int) -> list[float]:
    """Do the same with the floor: a process that listens and claims."""
    floors.clear(environment.connection)
    sent = {}
    with listener(environment):
        for _ in range(probes):
            called = time.monotonic_ns()
            task_id = floors.call(environment.connection)
            sent[task_id] = Sent(called, time.monotonic_ns())
            time.sleep(EVERY_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(stamped := floors.stamps(environment.connection)) < probes:
            in_time(deadline)
            time.sleep(EVERY_SECONDS)
    return waits(sent, stamped)


@contextmanager
def listener(environment: Environment) -> Iterator[None]:
    """Run the floor's listener in a process of its own."""
    with spawned("orchestrator.bench.listener", log=environment.log, url=environment.info) as process:
        if process.stdout is not None:
            process.stdout.readline()  # The line says that it listens.
        yield


def stamps(environment: Environment, sent: Mapping[int, Sent]) -> dict[int, int]:
    """Wait until all tasks have finished. Return when each task's handler started."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    given = {"ids": list(sent)}
    while True:
        rows = environment.connection.execute(STAMPS, given).fetchall()
        if len(rows) == len(sent):
            return dict(rows)
        in_time(deadline)
        time.sleep(EVERY_SECONDS)


def in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise PickupLost


def waits(
    sent: Mapping[int, Sent], started: Mapping[int, int], since: Literal["called", "returned"] = "returned"
) -> list[float]:
    """Return how many milliseconds each task waited. The number is negative if the handler starts before the producer's
    call returns, which happens on a busy machine."""
    return [(started[task_id] - getattr(at, since)) / 1e6 for task_id, at in sent.items()]


def percentile(values: list[float], share: float) -> float:
    """Return the value below which this share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
