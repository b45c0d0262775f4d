"""The run of a producer: one enqueue, a fault at one point; its answer, and the rows afterwards.

    acknowledged   everything is there
    refused        nothing is there
    in doubt, the driver's own error, or silence (it died)      all of it, or nothing

Afterwards a second call with the same key enqueues again: everything is there, once. While a producer is frozen,
another process makes that second call.
"""

import signal
from dataclasses import dataclass
from itertools import count
from typing import LiteralString

from tests.crashpoints import database, processes
from tests.crashpoints.producer_process import SET_SIZE
from tests.crashpoints.tap import Fault, Place, Point, Tap
from tests.crashpoints.worker_runs import Lane, Told
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
class Make:
    """One way to enqueue, the number of its tasks, and whether it writes a row of the caller's as well."""

    name: str
    tasks: int = 1
    beside: bool = False

    def counts(self, _place: Place) -> bool:
        """All of its messages count."""
        return True

    def play(self, lane: Lane, point: Point | None = None) -> Told:
        """Enqueue once, and once more."""
        database.clear(lane.environment.connection)
        key = f"key-{next(NUMBERS)}"
        with Tap(lane.environment.url, point) as tap:
            first = processes.producer(tap.url, lane.log(), self.name, key)
            tap.aim(first.pid)
            try:
                faults = self._judged(lane, tap, first, key)
            finally:
                first.kill()
        story = first.log if faults else ""
        return Told(tap.struck.is_set(), faults, story, tap.places)

    def _judged(self, lane: Lane, tap: Tap, first: Process, key: str) -> list[str]:
        lane.environment.until(
            lambda: tap.struck.is_set() or first.ended, "it has enqueued, or something strikes"
        )
        other = None
        if tap.struck.is_set() and not first.ended and tap.fault is Fault.FREEZE:
            other = processes.producer(lane.environment.url, lane.log(), self.name, key)
            # It may have to wait for the one that stands still: then both go on together.
            tap.thawed.wait(MEANWHILE_SECONDS)
            tap.thaw()
            first.signal(signal.SIGCONT)
            faults = [] if self._ends(other) else [f"the other one was told {self._word(other)}: {other.log}"]
        else:
            # Who was to stand still when it said goodbye is gone already.
            tap.thaw()
            faults = []
        killed = tap.struck.is_set() and tap.fault is Fault.KILL
        # Who says goodbye when he is killed may be gone already.
        if (code := first.wait()) not in ({0, -signal.SIGKILL} if killed else {0}):
            faults.append(f"it ended with {code}")
        if other is None:
            faults += self._wrong(lane, self._word(first))
        again = processes.producer(lane.environment.url, lane.log(), self.name, key)
        if not self._ends(again) or self._found(lane)[0] != self.tasks:
            faults.append(f"asked again: {again.log}; {self._found(lane)}")
        return faults

    def _ends(self, player: Process) -> bool:
        return player.wait() == 0 and self._word(player) == "acknowledged"

    def _word(self, player: Process) -> str:
        """Return its last report of an answer."""
        return next(iter((player.log.splitlines() or [""])[-1].split()), "")

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
        return [] if fine else [f"it was told {word!r}, and there are {tasks} tasks and {orders} orders"]

    def _found(self, lane: Lane) -> tuple[int, int]:
        # Not before the server has noticed the end of everybody.
        lane.environment.until(lambda: not lane.environment.ask(OTHERS), "all sessions have ended")
        ((tasks, orders),) = lane.environment.ask(FOUND)
        return int(tasks), int(orders)


MAKES = (
    Make("alone"),
    Make("as a set", tasks=SET_SIZE),
    Make("within", beside=True),
    Make("in a savepoint", beside=True),
    Make("undone", tasks=0, beside=True),
    Make("in SQL"),
)
