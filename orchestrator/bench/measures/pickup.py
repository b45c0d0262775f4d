"""How soon a handler starts, from the moment when the producer knows that its commit is done.

Producer and handler look at the same clock, CLOCK_MONOTONIC of this machine: the producer when its call returns, the
handler first of all, and it returns what it saw. The floor is stamped in the same way: when the claim's answer is
there.
"""

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median

from orchestrator.bench import backlog, floors, sections
from orchestrator.bench.crew import Crew
from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent
from orchestrator.bench.process import spawn
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.tasks import stamp
from orchestrator.errors import OrchestratorError
from orchestrator.postgres import connect

SQL = sections.of(__file__, "pickup.sql")
EVERY_SECONDS = 0.020
PATIENCE_SECONDS = 30.0
FLOOR_IS = "LISTEN, claim one"
# Each is enqueued by so many producers, on connections of their own.
STEADY = {200: 1, 2_000: 8}
STEADY_GOALS = (Goal(of="ours", most=5.0), Goal(of="p99 ms", most=50.0))


class PickupLost(OrchestratorError):
    """A task whose pickup was to be timed did not finish."""


def idle(ground: Ground) -> Iterator[Result]:
    """Enqueue one task each 20 ms for a worker that has nothing else to do."""
    ours, floor, p99, spent = list[float](), list[float](), list[float](), list[Spent]()
    connection, rounds = ground.connection, ground.sizes.rounds
    probes = max(1, ground.sizes.probes // rounds)
    backlog.let_go(connection)
    for turn in range(rounds):
        ground.say(f"pickup, idle worker: round {turn + 1} of {rounds}")
        backlog.clear(connection)
        with Crew(ground) as crew:
            before = ground.meter.read(crew.pids)
            called = paced(ground, tasks=probes, every_seconds=EVERY_SECONDS)
            times = waits(called, stamps(ground, called))
            spent.append(ground.meter.since(before, crew.pids))
        ours.append(median(times))
        p99.append(percentile(times, 0.99))
        floor.append(median(floor_waits(ground, probes)))
    backlog.clear(connection)
    yield Result(
        line="pickup, idle worker", unit="ms", ours=tuple(ours), floor=tuple(floor), floor_is=FLOOR_IS,
        goals=(Goal(most=1.4), Goal(of="p99 / p50", most=4.0)), tasks=probes, spent=tuple(spent),
        details={"p99 ms": median(p99), "p99 / p50": median(p99) / median(ours)},
    )  # fmt: skip


def steady(ground: Ground) -> Iterator[Result]:
    """Enqueue at steady rates."""
    for rate, producers in STEADY.items():
        line = f"pickup, {rate:,} tasks/s"
        ground.say(line)
        backlog.clear(ground.connection)
        backlog.let_go(ground.connection)
        every_seconds, tasks = producers / rate, max(1, int(rate * ground.sizes.steady_seconds / producers))
        with Crew(ground) as crew, ThreadPoolExecutor(producers) as threads:
            before, began = ground.meter.read(crew.pids), time.monotonic()
            shares = [threads.submit(paced, ground, tasks=tasks, every_seconds=every_seconds, late=n / rate)
                      for n in range(producers)]  # fmt: skip
            called = {task_id: at for share in shares for task_id, at in share.result().items()}
            lasted = time.monotonic() - began
            times = waits(called, stamps(ground, called))
            spent = ground.meter.since(before, crew.pids)
        yield Result(
            line=line, unit="ms", ours=(median(times),), goals=STEADY_GOALS, tasks=len(called), spent=(spent,),
            details={"p99 ms": percentile(times, 0.99), "enqueued /s": len(called) / lasted},
        )  # fmt: skip
    backlog.clear(ground.connection)


def paced(ground: Ground, *, tasks: int, every_seconds: float, late: float = 0.0) -> dict[int, int]:
    """Enqueue tasks at a pace, on a connection of its own; return when each was known to be committed."""
    called = {}
    with connect.open_sync(ground.info) as connection:
        sender = stamp.using(connection)
        due = time.monotonic() + late
        for _ in range(tasks):
            time.sleep(max(0.0, due - time.monotonic()))
            task_id = sender.enqueue().id
            called[task_id] = time.monotonic_ns()
            due += every_seconds
    return called


def floor_waits(ground: Ground, probes: int) -> list[float]:
    """Do the same with a process that listens and claims."""
    floors.clear(ground.connection)
    called = {}
    with listener(ground):
        for _ in range(probes):
            task_id = floors.call(ground.connection)
            called[task_id] = time.monotonic_ns()
            time.sleep(EVERY_SECONDS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(stamped := floors.stamps(ground.connection)) < probes:
            in_time(deadline)
            time.sleep(EVERY_SECONDS)
    return waits(called, stamped)


@contextmanager
def listener(ground: Ground) -> Iterator[None]:
    """Run the floor's listener in a process of its own."""
    process = spawn("orchestrator.bench.listener", url=ground.info)
    try:
        if process.stdout is not None:
            process.stdout.readline()  # it listens now
        yield
    finally:
        process.kill()
        process.communicate()


def stamps(ground: Ground, called: Mapping[int, int]) -> dict[int, int]:
    """Return when each task's handler started, once all have finished."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    given = {"ids": list(called)}
    while True:
        rows = ground.connection.execute(SQL["stamps"], given).fetchall()
        if len(rows) == len(called):
            return dict(rows)
        in_time(deadline)
        time.sleep(EVERY_SECONDS)


def in_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise PickupLost


def waits(called: Mapping[int, int], started: Mapping[int, int]) -> list[float]:
    """Return how many milliseconds each task waited."""
    return [(started[task_id] - at) / 1e6 for task_id, at in called.items()]


def percentile(values: list[float], share: float) -> float:
    """Return the value that so large a share of them lies below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
