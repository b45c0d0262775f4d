"""The next order to try: every way to merge the sessions' steps, depth first.

A schedule is a list of names, one for each step: the actor of the step. The possible next steps are not known in
advance, because a session that waits for a lock has no next step until it has the lock. So each schedule runs from the
start, each choice notes its alternatives, and the next schedule differs at the last choice with an alternative left.
The search ends: schedules are finite, and each is greater than the one before, in the order of the choices.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import factorial, prod


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen actor, and the possible ones."""

    taken: str
    available: tuple[str, ...]

    @property
    def left(self) -> tuple[str, ...]:
        """The actors that have not been tried here; all before `taken` have been."""
        return self.available[self.available.index(self.taken) + 1 :]


def following(choices: Sequence[Choice]) -> list[Choice] | None:
    """Return the beginning of the next schedule, or None after the last one."""
    for n in reversed(range(len(choices))):
        if left := choices[n].left:
            return [*choices[:n], replace(choices[n], taken=left[0])]
    return None


def merges(steps: Iterable[int]) -> int:
    """Return the number of orders of this many steps each, if no actor ever waits."""
    lengths = list(steps)
    return factorial(sum(lengths)) // prod(map(factorial, lengths))
