"""The rate of many producers at the same time, in plain SQL and in Python, compared with as many INSERTs into a table
without a trigger.

The same workers run in the same state while the floor is measured.
"""

import subprocess  # nosec B404 # each call says what it starts
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from orchestrator.bench import backlog, floors
from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.bench.result import Goal, Result
from orchestrator.bench.rounds import Round, by_turns
from orchestrator.bench.tasks import app, sleep
from orchestrator.bench.workers import CONCURRENCY, Workers
from orchestrator.demo.workers import spawned
from orchestrator.execute import declare

# More than one process: threads of one process would wait for each other instead of the database.
PROCESSES = 2
WORKERS = 2
GOAL = Goal(least=0.7)
LONG_SECONDS = 3_600.0
FLOOR_IS = "the same INSERTs, no trigger"
# The commands of bench/producer.py, and who obeys them.
WAYS = {"insert": "producers", "aenqueue": "coroutines"}


class ProducerEnded(NotMeasured):
    """A producer ended before the bench."""


def at_once(environment: Environment) -> Iterator[Result]:
    """Insert from many connections at the same time, with the workers in each of four states."""
    declare(environment.connection, app.registry, queues=["elsewhere"])
    with producers(environment) as processes:
        for state in (no_workers, busy, idle_elsewhere, working):
            backlog.clear(environment.connection)
            with state(environment) as words:
                goals = () if state is working else (GOAL,)
                for way, name in WAYS.items():
                    line = f"{environment.sizes.producers} {name}, {words}"
                    yield compared(environment, line, way, processes, goals)
    backlog.clear(environment.connection)


@contextmanager
def no_workers(_environment: Environment) -> Iterator[str]:
    """No worker."""
    yield "no worker"


@contextmanager
def busy(environment: Environment) -> Iterator[str]:
    """Workers of the same queue whose slots are all taken, so that no enqueue has to wake them."""
    sender = sleep.using(environment.connection)
    backlog.resume(environment.connection, ["default", "asleep"])
    with Workers(environment, size=WORKERS, queues=("default", "asleep")) as workers:
        sender.enqueue_many({"seconds": LONG_SECONDS} for _ in range(WORKERS * CONCURRENCY))
        backlog.wait_until_running(environment.connection, workers, WORKERS * CONCURRENCY, "asleep")
        yield "2 busy"


@contextmanager
def idle_elsewhere(environment: Environment) -> Iterator[str]:
    """Idle workers that wait for tasks of another queue."""
    with Workers(environment, size=WORKERS, queues=("elsewhere",)):
        yield "2 elsewhere"


@contextmanager
def working(environment: Environment) -> Iterator[str]:
    """Workers that run these tasks as they arrive. With few cores, they and the producers share them."""
    backlog.resume(environment.connection)
    with Workers(environment, size=WORKERS):
        yield "2 working"


def compared(
    environment: Environment, line: str, way: str, processes: list[subprocess.Popen[bytes]],
    goals: tuple[Goal, ...],
) -> Result:  # fmt: skip
    """Insert into the two tables by turns."""
    each = environment.sizes.producer_enqueues
    tasks, pids = each * environment.sizes.producers, [process.pid for process in processes]

    def insert(how: str) -> Round:
        floors.clear(environment.connection)
        before = environment.meter.read(pids)
        seconds = inserted(processes, how, each)
        return Round(tasks / seconds, environment.meter.since(before, pids))

    own, least = by_turns(environment, line, lambda: insert(way), lambda: insert("floor"))
    return Result(
        line=line, unit="tasks/s", ours=own, floor=least, floor_is=FLOOR_IS, tasks=tasks, goals=goals
    )


@contextmanager
def producers(environment: Environment) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run the connected processes for the duration of a block."""
    size = environment.sizes.producers
    shares = [size // PROCESSES + (n < size % PROCESSES) for n in range(PROCESSES)]
    with ExitStack() as stack:
        started = (
            spawned("orchestrator.bench.producer", log=environment.log, url=environment.info) for _ in shares
        )
        processes = [stack.enter_context(process) for process in started]
        for process, share in zip(processes, shares, strict=True):
            write(process, str(share))
        for process in processes:
            read(process)
        yield processes


def inserted(processes: list[subprocess.Popen[bytes]], way: str, each: int) -> float:
    """Let all processes insert. Return the seconds from the first begin to the last end."""
    for process in processes:
        write(process, f"{way} {each}")
    spans = [tuple(map(int, read(process).split())) for process in processes]
    return (max(span[1] for span in spans) - min(span[0] for span in spans)) / 1e9


def write(process: subprocess.Popen[bytes], text: str) -> None:
    if process.stdin is None:
        raise AssertionError("it was started with a pipe")
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()


def read(process: subprocess.Popen[bytes]) -> str:
    if process.stdout is None or not (line := process.stdout.readline()):
        raise ProducerEnded
    return line.decode()
