"""Measure by turns: ours, the floor, ours, the floor. If the machine is slow for a while, it slows both."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.bench.environment import Environment
from orchestrator.bench.meter import Spent


@dataclass(frozen=True, slots=True)
class Round:
    """One round's figure, and its cost if it is known."""

    figure: float
    spent: Spent | None = None


Rounds = tuple[Round, ...]


def by_turns(
    environment: Environment, line: str, ours: Callable[[], Round], floor: Callable[[], Round]
) -> tuple[Rounds, Rounds]:
    """Measure both by turns; the sizes give the number of rounds."""
    times, own, least = environment.sizes.rounds, list[Round](), list[Round]()
    for n in range(times):
        environment.say(f"{line}: round {n + 1} of {times}")
        own.append(ours())
        least.append(floor())
    return tuple(own), tuple(least)


def timed(environment: Environment, tasks: int, work: Callable[[], None]) -> Round:
    """Do work in this process and return its tasks per second, by our own clock."""
    before, began = environment.meter.read([os.getpid()]), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return Round(tasks / seconds, environment.meter.since(before, [os.getpid()]))
