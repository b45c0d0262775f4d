"""The points of all runs, and lanes that try them side by side, each in a database of its own.

First each run is done once without a fault, and its messages are noted. Each message with each fault is a point.
"""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Protocol

from tests.crashpoints.fault_proxy import Fault, Place, Point, points_of
from tests.crashpoints.producer_runs import PRODUCER_SCENARIOS
from tests.crashpoints.worker_runs import WORKER_SCENARIOS, Lane, RunResult


class Subject(Protocol):
    """A run in which a fault can occur."""

    @property
    def name(self) -> str: ...

    def counts(self, place: Place) -> bool: ...

    def play(self, lane: Lane, point: Point | None = None) -> RunResult: ...


SUBJECTS: tuple[Subject, ...] = (*WORKER_SCENARIOS, *PRODUCER_SCENARIOS)
Work = tuple[Subject, Point | None]


@dataclass
class Report:
    """The results of all runs."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    struck: Counter[tuple[str, Fault]] = field(default_factory=Counter)
    missed: list[Work] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    places: dict[str, list[Place]] = field(default_factory=dict)

    def note(self, work: Work, result: RunResult) -> None:
        """Record one run."""
        subject, point = work
        with self.lock:
            if point is None:
                self.places[subject.name] = [place for place in result.places if subject.counts(place)]
            elif result.reached:
                self.struck[subject.name, point.fault] += 1
            else:
                self.missed.append(work)
            if result.faults:
                self.wrong.append("\n".join([f"{subject.name}: {point}", *result.faults, result.story]))

    def table(self) -> str:
        """Return the counts as text."""
        rows = [f"{'':16}" + "".join(f"{fault.value:>12}" for fault in Fault) + f"{'all':>8}"]
        for name in dict.fromkeys(name for name, _ in self.struck):
            counts = [self.struck[name, fault] for fault in Fault]
            rows.append(f"{name:16}" + "".join(f"{n:12}" for n in counts) + f"{sum(counts):8}")
        rows.append(
            f"{sum(self.struck.values())} points struck, {len(self.missed)} not reached, {len(self.wrong)} wrong"
        )
        return "\n".join(rows)


def find_points(lanes: Sequence[Lane]) -> tuple[list[Work], Report]:
    """Do every run once without a fault. Return all points."""
    report = run(lanes, [(subject, None) for subject in SUBJECTS])
    points: list[Work] = [
        (subject, point) for subject in SUBJECTS for point in points_of(report.places.get(subject.name, []))
    ]
    return points, report


def run(lanes: Sequence[Lane], works: Sequence[Work], say: Callable[[str], object] = str) -> Report:
    """Try these points; each lane takes the next one."""
    report = Report()
    go_through_all(lanes, works, report, say)
    # A worker that beats once less than before does not send its last messages: try these points again.
    missed, report.missed = report.missed, []
    go_through_all(lanes, missed, report, say)
    return report


def go_through_all(
    lanes: Sequence[Lane], works: Sequence[Work], report: Report, say: Callable[[str], object]
) -> None:
    todo = SimpleQueue[Work]()
    for work in works:
        todo.put(work)

    def go_through(lane: Lane) -> None:
        with suppress(Empty):
            # Ends: each round takes one point out of the queue.
            while True:
                subject, point = todo.get_nowait()
                try:
                    result = subject.play(lane, point)
                except AssertionError as error:
                    result = RunResult(reached=True, faults=[f"I7 {error}"])
                report.note((subject, point), result)
                if result.faults:
                    say(f"{subject.name}: {point}: {result.faults}")

    threads = [threading.Thread(target=go_through, args=[lane], daemon=True) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
