"""The schedule of the faults. It depends only on the seed, so the same seed gives the same faults.

The processes run at their own speed, so the faults hit different states each time. So a fault does not name a process
or a task. It has a number from 0 to 1, which chooses among the processes or tasks that exist at that moment.
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

# The relative frequency of each kind. Faults that are expensive (a process must start, a server must recover) are rare,
# so that there is time for the others.
WEIGHTS: Mapping[str, float] = {
    # the network, through the proxy of one process
    "reply lost": 9.0,
    "request lost": 6.0,
    "connections reset": 2.0,
    "delay": 1.0,
    "black hole": 0.3,
    "packets dropped": 0.15,
    "connections refused": 0.2,
    # processes
    "worker killed": 1.2,
    "worker frozen briefly": 1.5,
    "worker frozen beyond its lease": 0.3,
    "leader frozen beyond its term": 0.15,
    "leader killed": 0.15,
    "worker stopped": 0.4,
    "worker stopped twice": 0.2,
    "worker drained by an operator": 0.1,
    "new version deployed": 0.2,
    "producer killed": 0.4,
    "poison enqueued": 0.06,
    # PostgreSQL
    "backend terminated": 9.0,
    "backend killed": 0.05,
    "server restarted": 0.05,
    "server crashed": 0.05,
    "postmaster killed": 0.02,
    "connections exhausted": 0.1,
    "snapshot held": 0.1,
    "rows locked": 0.4,
    # operators
    "operator requeues": 1.5,
    "operator cancels": 1.0,
    "operator deletes": 0.7,
    "operator sets priority": 0.7,
    "operator delays": 0.5,
    "operator changes in bulk": 0.4,
    "operator requeues dead letters": 0.3,
    "queue paused": 0.3,
    "queue drained": 0.2,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its time in seconds, its kind, its place, its strength."""

    at: float
    kind: str
    where: float
    how: float


def schedule(seed: int, *, per_second: float, weights: Mapping[str, float] = WEIGHTS) -> Iterator[Fault]:
    """Draw faults without end, in the order of time."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    kinds, borders = list(weights), list(accumulate(weights.values()))
    at = 0.0
    # Ends when the caller takes no more.
    while True:
        at += dice.expovariate(per_second)
        yield Fault(at, dice.choices(kinds, cum_weights=borders)[0], dice.random(), dice.random())
