"""The next order to try: every way to merge the sessions' steps, depth first.

A schedule is a list of names, one for each step: the actor of the step. The possible next steps are not known in
advance, because a session that waits for a lock has no next step until it has the lock. So each schedule runs from the
start, each choice notes the alternatives, and the next schedule differs at the last choice with an alternative left.
Ends: each schedule is greater than the one before, in the order of the choices, and all are finite.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import factorial, prod


@dataclass(frozen=True, slots=True)
class Choice:
    """Whose step was taken, of those that could be."""

    taken: str
    available: tuple[str, ...]

    @property
    def left(self) -> tuple[str, ...]:
        """What has not been tried here, all before `taken` having been."""
        return self.available[self.available.index(self.taken) + 1 :]


def following(choices: Sequence[Choice]) -> list[Choice] | None:
    """Return how the next schedule begins, or None after the last one."""
    for n in reversed(range(len(choices))):
        if left := choices[n].left:
            return [*choices[:n], replace(choices[n], taken=left[0])]
    return None


def merges(steps: Iterable[int]) -> int:
    """Return in how many orders so many steps each can be taken, when nobody ever waits."""
    lengths = list(steps)
    return factorial(sum(lengths)) // prod(map(factorial, lengths))
