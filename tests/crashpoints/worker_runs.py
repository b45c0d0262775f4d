"""The run of a worker: start, one task, stop; and a fault at one point.

A worker that is cut off goes on by itself. A worker that is killed or frozen is replaced, once, by a worker without
faults. A frozen worker is resumed when another worker has completed the task and the frozen one is declared dead. Then
its delayed message reaches the server first.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

from tests.crashpoints import database, processes
from tests.crashpoints.fault_proxy import Fault, FaultProxy, Place, Point
from tests.crashpoints.tasks import DIRECT
from tests.crashpoints.verdict import timeline, violations
from tests.patience import PATIENCE_SECONDS
from tests.recovery.environment import Environment, environment
from tests.worker.processes import QUICK, Process

# An idle worker beats and polls within this time, so a message that comes only now and then has come by then.
LINGER_SECONDS = 0.8
# The status of a worker that gets SIGTERM while it is still loading.
UNLOADED = -signal.SIGTERM


@dataclass
class RunResult:
    """The result of one run: whether the point was reached, and the violations."""

    reached: bool
    faults: list[str]
    story: str = ""
    places: list[Place] = field(default_factory=list)


class Lane:
    """A database for a series of runs."""

    def __init__(self, made: Environment, directory: Path) -> None:
        self.environment = made
        self.directory = directory
        self._numbers = count(1)
        database.create_records(made.connection)

    @classmethod
    @contextmanager
    def opened(cls, url: str, directory: Path) -> Iterator[Self]:
        """Yield a lane on a migrated database."""
        directory.mkdir()
        with environment(url, directory, QUICK) as made:
            yield cls(made, directory)

    def log(self) -> Path:
        """Return the path of a new log."""
        return self.directory / f"{next(self._numbers)}.log"

    def hire(self, url: str) -> Process:
        """Start a worker."""
        return processes.worker(url, self.log(), "lives", {**QUICK, DIRECT: self.environment.url})


class Run:
    """One run of a worker."""

    def __init__(self, lane: Lane, proxy: FaultProxy, point: Point | None, ids: Sequence[int]) -> None:
        self._lane = lane
        self._environment = lane.environment
        self._proxy = proxy
        self._point = point
        self._ids = ids
        self.victim = lane.hire(proxy.url)
        self.rescuer: Process | None = None
        proxy.aim(self.victim.pid)

    def play(self) -> list[str]:
        """Run it to its end. Return the processes that did not end as expected."""
        self._until(lambda: self._completed() or self._interrupted(), "it is completed, or interrupted")
        if self._point is not None and not self._point.place.ending and not self._interrupted():
            self._linger()
        if not self._interrupted():
            self._proxy.client_was_asked_to_stop()
            self.victim.signal(signal.SIGTERM)
            self._until(self._interrupted, "it ends, or is interrupted")
        self._heal()
        self._until(self._completed, "it is completed in the end")
        return self._stopped()

    def kill(self) -> None:
        """Kill all processes."""
        for process in filter(None, (self.victim, self.rescuer)):
            process.kill()

    def logs(self) -> str:
        """Return their output."""
        return "\n".join(f"--- {p.pid}\n{p.log[-4000:]}" for p in (self.victim, self.rescuer) if p)

    def _heal(self) -> None:
        """Let another worker do the remaining tasks, and resume the frozen one."""
        match self._proxy.fault if self._proxy.struck.is_set() else None:
            case Fault.KILL:
                self.victim.wait()
                self._rescue()
            case Fault.FREEZE:
                self._rescue()
                self._until(lambda: self._completed() and not self._is_live(), "others have taken over")
                self._proxy.thaw()
                self.victim.signal(signal.SIGCONT)
            case _:
                self._until(lambda: self._completed() or self.victim.ended, "it goes on, or ends")
                if not self._completed():
                    self._rescue()

    def _rescue(self) -> None:
        self.rescuer = self._lane.hire(self._environment.url)

    def _stopped(self) -> list[str]:
        """Stop all processes. Return those that did not end as expected."""
        expected = {0}
        if not self.victim.has_logged("worker started") or not self._proxy.struck.is_set():
            # An error before it serves ends it with 1, and a message.
            expected.add(1)
        if self._proxy.struck.is_set() and self._proxy.fault is Fault.KILL:
            expected = {-signal.SIGKILL}
        for process in filter(None, (self.victim, self.rescuer)):
            process.signal(signal.SIGTERM)
        ends = [f"the worker ended with {self.victim.wait()}"] if self.victim.wait() not in expected else []
        if self.rescuer is not None and self.rescuer.wait() not in (0, UNLOADED):
            ends.append(f"the rescuer ended with {self.rescuer.wait()}")
        return ends

    def _linger(self) -> None:
        """Wait a while for a point that may still be reached."""
        self._proxy.struck.wait(LINGER_SECONDS)

    def _interrupted(self) -> bool:
        return self._proxy.struck.is_set() or self.victim.ended

    def _completed(self) -> bool:
        return self._environment.are(self._ids, "completed")

    def _is_live(self) -> bool:
        """Return whether the victim is a live worker."""
        return self._environment.serves(self.victim, has_beacon=False)

    def _until(self, holds: object, what: str) -> None:
        assert callable(holds)
        self._environment.until(holds, what, seconds=PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class WorkerScenario:
    """One kind of task, and the connections whose messages are its points; None: all."""

    name: str
    purposes: frozenset[str] | None = None

    def counts(self, place: Place) -> bool:
        """Return whether this message is a point of this kind of run. The other kinds have the rest."""
        return self.purposes is None or place.purpose in self.purposes

    def play(self, lane: Lane, point: Point | None = None) -> RunResult:
        """Do one run. Kill the remaining processes."""
        made = lane.environment
        database.clear(made.connection)
        ids = made.enqueue(f"point.{self.name}", queue="lives")
        with FaultProxy(made.url, point) as proxy:
            run = Run(lane, proxy, point, ids)
            try:
                faults = run.play()
            except AssertionError as error:
                faults = [f"I7 {error}"]
            finally:
                run.kill()
        faults += violations(made.connection, ids)
        story = f"{timeline(made.connection, ids)}\n{run.logs()}" if faults else ""
        return RunResult(proxy.struck.is_set(), faults, story, proxy.places)


WORKER_SCENARIOS = (
    WorkerScenario("plain"),
    WorkerScenario("retried", frozenset({"claims", "outcomes"})),
    WorkerScenario("own", frozenset({"transactions"})),
    WorkerScenario("own_in_thread", frozenset({"transactions"})),
    WorkerScenario("progressing", frozenset({"progress"})),
)
