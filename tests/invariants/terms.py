"""Judge the terms of leaders (I8): they strictly rise, one after the other; a duty belongs to the current one."""

from collections.abc import Iterator


class Terms:
    """The terms of a history, in the order in which they begin and end."""

    def __init__(self) -> None:
        self._current: tuple[str, int] | None = None
        self._last = 0

    def begins(self, leader: str, term: int) -> Iterator[str]:
        """A worker takes the lead."""
        if self._current is not None:
            yield f"I8: term {term} of {leader} begins in that of {self._current}"
        if term <= self._last:
            yield f"I8: term {term} of {leader} comes after term {self._last}"
        self._current, self._last = (leader, term), max(term, self._last)

    def ends(self) -> None:
        """The leader resigns, or its term is over."""
        self._current = None

    def duty(self, leader: str, term: int) -> Iterator[str]:
        """A worker does a duty in this term."""
        if self._current != (leader, term):
            yield f"I8: {leader} does a duty of term {term} in that of {self._current}"
