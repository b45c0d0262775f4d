"""Take turns: ours, the floor, ours, the floor. A machine that is slower for a while is so for both."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.bench.ground import Ground
from orchestrator.bench.meter import Spent


@dataclass(frozen=True, slots=True)
class Round:
    """One round's figure, and what it cost, where that is known."""

    figure: float
    spent: Spent | None = None


Rounds = tuple[Round, ...]


def by_turns(
    ground: Ground, line: str, ours: Callable[[], Round], floor: Callable[[], Round]
) -> tuple[Rounds, Rounds]:
    """Measure both as often as the sizes say, by turns."""
    times, own, least = ground.sizes.rounds, list[Round](), list[Round]()
    for n in range(times):
        ground.say(f"{line}: round {n + 1} of {times}")
        own.append(ours())
        least.append(floor())
    return tuple(own), tuple(least)


def timed(ground: Ground, tasks: int, work: Callable[[], None]) -> Round:
    """Do some work here, in this process, and return how many tasks it did in a second, by our own clock."""
    before, began = ground.meter.read([os.getpid()]), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return Round(tasks / seconds, ground.meter.since(before, [os.getpid()]))
