"""The run of a worker: start, one task, stop; and a fault at one point.

A worker that is cut off goes on by itself. A worker that is killed or frozen is replaced, once, by a worker without
faults. A frozen worker goes on when another worker has completed the task and its own row is dead. Its delayed message
reaches the server first then.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Self

from tests.crashpoints import database, processes
from tests.crashpoints.tap import Fault, Place, Point, Tap
from tests.crashpoints.tasks import DIRECT
from tests.crashpoints.verdict import timeline, violations
from tests.patience import PATIENCE_SECONDS
from tests.recovery.environment import Environment, environment
from tests.worker.processes import QUICK, Process

# A worker that idles beats, and asks for work, so often: until then a message that is only due in a while comes.
LINGER_SECONDS = 0.8
# One that is still being loaded when it is told to stop just ends.
UNLOADED = -signal.SIGTERM


@dataclass
class Told:
    """The result of one run: whether the point was reached, and the violations."""

    reached: bool
    faults: list[str]
    story: str = ""
    places: list[Place] = field(default_factory=list)


class Lane:
    """A database in which one run after another is done."""

    def __init__(self, made: Environment, directory: Path) -> None:
        self.environment = made
        self.directory = directory
        self._numbers = count(1)
        database.lay(made.connection)

    @classmethod
    @contextmanager
    def laid(cls, url: str, directory: Path) -> Iterator[Self]:
        """Yield a lane on a migrated database."""
        directory.mkdir()
        with environment(url, directory, QUICK) as made:
            yield cls(made, directory)

    def log(self) -> Path:
        """Return the name of a new log."""
        return self.directory / f"{next(self._numbers)}.log"

    def hire(self, url: str) -> Process:
        """Start a worker."""
        return processes.worker(url, self.log(), "lives", {**QUICK, DIRECT: self.environment.url})


class Run:
    """One run."""

    def __init__(self, lane: Lane, tap: Tap, point: Point | None, ids: Sequence[int]) -> None:
        self._lane = lane
        self._stage = lane.environment
        self._tap = tap
        self._point = point
        self._ids = ids
        self.victim = lane.hire(tap.url)
        self.rescuer: Process | None = None
        tap.aim(self.victim.pid)

    def play(self) -> list[str]:
        """Do it to its end. Return the violations in the ends of the processes."""
        self._until(lambda: self._completed() or self._interrupted(), "it is completed, or something strikes")
        if self._point is not None and not self._point.place.ending and not self._interrupted():
            self._linger()
        if not self._interrupted():
            self._tap.begin_the_end()
            self.victim.signal(signal.SIGTERM)
            self._until(self._interrupted, "it ends, or something strikes")
        self._heal()
        self._until(self._completed, "it is completed after all")
        return self._stopped()

    def kill(self) -> None:
        """Kill all processes."""
        for player in filter(None, (self.victim, self.rescuer)):
            player.kill()

    def logs(self) -> str:
        """Return their output."""
        return "\n".join(f"--- {p.pid}\n{p.log[-4000:]}" for p in (self.victim, self.rescuer) if p)

    def _heal(self) -> None:
        """Let other workers do the remaining tasks, and resume the frozen one."""
        match self._tap.fault if self._tap.struck.is_set() else None:
            case Fault.KILL:
                self.victim.wait()
                self._rescue()
            case Fault.FREEZE:
                self._rescue()
                self._until(lambda: self._completed() and not self._lives(), "others have taken over")
                self._tap.thaw()
                self.victim.signal(signal.SIGCONT)
            case _:
                self._until(lambda: self._completed() or self.victim.ended, "it goes on, or ends")
                if not self._completed():
                    self._rescue()

    def _rescue(self) -> None:
        self.rescuer = self._lane.hire(self._stage.url)

    def _stopped(self) -> list[str]:
        """Stop all processes. Return those that did not end well."""
        expected = {0}
        if not self.victim.has_logged("worker started") or not self._tap.struck.is_set():
            # Before it serves, what goes wrong ends it, and is said.
            expected.add(1)
        if self._tap.struck.is_set() and self._tap.fault is Fault.KILL:
            expected = {-signal.SIGKILL}
        for player in filter(None, (self.victim, self.rescuer)):
            player.signal(signal.SIGTERM)
        ends = [f"the worker ended with {self.victim.wait()}"] if self.victim.wait() not in expected else []
        if self.rescuer is not None and self.rescuer.wait() not in (0, UNLOADED):
            ends.append(f"the rescuer ended with {self.rescuer.wait()}")
        return ends

    def _linger(self) -> None:
        """Wait a while for a point that may still be reached."""
        self._tap.struck.wait(LINGER_SECONDS)

    def _interrupted(self) -> bool:
        return self._tap.struck.is_set() or self.victim.ended

    def _completed(self) -> bool:
        return self._stage.are(self._ids, "completed")

    def _lives(self) -> bool:
        """Return whether the victim is a live worker."""
        return self._stage.serves(self.victim, lit=False)

    def _until(self, holds: object, what: str) -> None:
        assert callable(holds)
        self._stage.until(holds, what, seconds=PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class Life:
    """One kind of task, and the connections whose messages count for it; None: all."""

    name: str
    purposes: frozenset[str] | None = None

    def counts(self, place: Place) -> bool:
        """Return whether this message counts for this kind of run, and not only for another."""
        return self.purposes is None or place.purpose in self.purposes

    def play(self, lane: Lane, point: Point | None = None) -> Told:
        """Do one run. Kill the remaining processes."""
        made = lane.environment
        database.clear(made.connection)
        ids = made.enqueue(f"point.{self.name}", queue="lives")
        with Tap(made.url, point) as tap:
            run = Run(lane, tap, point, ids)
            try:
                faults = run.play()
            except AssertionError as error:
                faults = [f"I7 {error}"]
            finally:
                run.kill()
        faults += violations(made.connection, ids)
        story = f"{timeline(made.connection, ids)}\n{run.logs()}" if faults else ""
        return Told(tap.struck.is_set(), faults, story, tap.places)


LIVES = (
    Life("plain"),
    Life("retried", frozenset({"claims", "outcomes"})),
    Life("own", frozenset({"transactions"})),
    Life("own_in_thread", frozenset({"transactions"})),
    Life("progressing", frozenset({"progress"})),
)
