"""The run of a producer: one enqueue with a fault at one point, its answer, and the rows afterwards.

    acknowledged   all tasks exist
    refused        no task exists
    in doubt, the driver's own error, or no answer (it died)    all tasks exist, or none

Afterwards a second call with the same key enqueues again: all tasks exist, once. While a producer is frozen, another
process makes that second call.
"""

import signal
from dataclasses import dataclass
from itertools import count
from typing import LiteralString

from tests.crashpoints import database, processes
from tests.crashpoints.fault_proxy import Fault, FaultProxy, Place, Point
from tests.crashpoints.producer_process import SET_SIZE
from tests.crashpoints.worker_runs import Lane, RunResult
from tests.worker.processes import Process

NUMBERS = count(1)
OTHERS: LiteralString = """
SELECT 1 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
FOUND: LiteralString = """
SELECT (SELECT count(*) FROM orchestrator.tasks), (SELECT count(*) FROM points.orders)
"""
MEANWHILE_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class ProducerScenario:
    """One way to enqueue, the number of its tasks, and whether the caller writes a row of its own with them."""

    name: str
    tasks: int = 1
    beside: bool = False

    def counts(self, _place: Place) -> bool:
        """Return True: all of its messages are points."""
        return True

    def play(self, lane: Lane, point: Point | None = None) -> RunResult:
        """Enqueue once with the fault, then once more."""
        database.clear(lane.environment.connection)
        key = f"key-{next(NUMBERS)}"
        with FaultProxy(lane.environment.url, point) as proxy:
            first = processes.producer(proxy.url, lane.log(), self.name, key)
            proxy.aim(first.pid)
            try:
                faults = self._judged(lane, proxy, first, key)
            finally:
                first.kill()
        story = first.log if faults else ""
        return RunResult(proxy.struck.is_set(), faults, story, proxy.places)

    def _judged(self, lane: Lane, proxy: FaultProxy, first: Process, key: str) -> list[str]:
        lane.environment.until(
            lambda: proxy.struck.is_set() or first.ended, "it has enqueued, or is interrupted"
        )
        other = None
        if proxy.struck.is_set() and not first.ended and proxy.fault is Fault.FREEZE:
            other = processes.producer(lane.environment.url, lane.log(), self.name, key)
            # It may wait for a lock of the frozen one. Then both go on together.
            proxy.thawed.wait(MEANWHILE_SECONDS)
            proxy.thaw()
            first.signal(signal.SIGCONT)
            faults = (
                []
                if self._is_acknowledged(other)
                else [f"the other one got the answer {self._word(other)}: {other.log}"]
            )
        else:
            # A producer that was to be frozen at its last message may have ended.
            proxy.thaw()
            faults = []
        killed = proxy.struck.is_set() and proxy.fault is Fault.KILL
        # A producer that is killed at its last message may have ended before.
        if (code := first.wait()) not in ({0, -signal.SIGKILL} if killed else {0}):
            faults.append(f"it ended with {code}")
        if other is None:
            faults += self._wrong(lane, self._word(first))
        again = processes.producer(lane.environment.url, lane.log(), self.name, key)
        if not self._is_acknowledged(again) or self._found(lane)[0] != self.tasks:
            faults.append(f"second call: {again.log}; {self._found(lane)}")
        return faults

    def _is_acknowledged(self, process: Process) -> bool:
        return process.wait() == 0 and self._word(process) == "acknowledged"

    def _word(self, process: Process) -> str:
        """Return the first word of the last line of its log."""
        return next(iter((process.log.splitlines() or [""])[-1].split()), "")

    def _wrong(self, lane: Lane, word: str) -> list[str]:
        tasks, orders = self._found(lane)
        match word:
            case "acknowledged":
                fine = tasks == self.tasks
            case "refused":
                fine = tasks == 0
            case "" | "begun" | "doubt" | "broken":
                fine = tasks in (0, self.tasks)
            case _:
                fine = False
        fine = fine and (not self.beside or orders == tasks)
        return [] if fine else [f"its answer was {word!r}, and there are {tasks} tasks and {orders} orders"]

    def _found(self, lane: Lane) -> tuple[int, int]:
        # First the server must have ended the sessions of all processes.
        lane.environment.until(lambda: not lane.environment.ask(OTHERS), "all sessions have ended")
        ((tasks, orders),) = lane.environment.ask(FOUND)
        return int(tasks), int(orders)


PRODUCER_SCENARIOS = (
    ProducerScenario("alone"),
    ProducerScenario("as a set", tasks=SET_SIZE),
    ProducerScenario("within", beside=True),
    ProducerScenario("in a savepoint", beside=True),
    ProducerScenario("undone", tasks=0, beside=True),
    ProducerScenario("in SQL"),
)
