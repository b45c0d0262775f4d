"""Values as small numbers, so that a state of a search is one integer."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

SHARED_BITS = 28
LOCAL_BITS = 16
SHARED = (1 << SHARED_BITS) - 1
LOCAL = (1 << LOCAL_BITS) - 1


class Numbered:
    """Values by number, and numbers by value. Number 0 is None: no memory."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._numbers: dict[Any, int] = {None: 0}
        self._last: tuple[Any, int] = (None, 0)
        self.values: list[Any] = [None]

    def number(self, value: Any) -> int:
        """Return the number of a value. A new value gets a new number."""
        # Hashing a value is expensive, and successive steps often have the same one.
        last, found = self._last
        if value is not last:
            found = self._numbered(value)
            self._last = (value, found)
        return found

    def _numbered(self, value: Any) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self.values)
            if found > self._limit:
                raise OverflowError("more values than a state has room for; take smaller bounds")
            self.values.append(value)
        return found


class Elsewhere(dict[int, int]):
    """The effect of one kind of step on other memories: their part of a state after the step, by their part before."""

    def __init__(
        self, touched: Callable[[Any, Any], Any], local: Numbered, shifts: Sequence[int], others: Hashable
    ) -> None:
        super().__init__()
        self._touched = touched
        self._local = local
        self._shifts = shifts
        self._others = others

    def __missing__(self, rest: int) -> int:
        after = 0
        for shift in self._shifts:
            memory = self._local.values[rest >> shift & LOCAL]
            if memory is not None:
                after |= self._local.number(self._touched(memory, self._others)) << shift
        self[rest] = after
        return after
