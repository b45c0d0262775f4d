"""The names of queues and types in labels: bounded in number and length, and safe to show.

Any producer may invent names, and each name is a series that Prometheus keeps for weeks. The first 200 of a kind keep
their names; all others are counted together. A worker's own names are reserved first.
"""

import threading

from orchestrator.observe.printable import printable

NAMES_MAX = 200
CHARACTERS_MAX = 200
OTHER = "other"


class Names:
    """The names of one kind that have been seen."""

    def __init__(self, names_max: int = NAMES_MAX) -> None:
        self._names_max = names_max
        self._shown: dict[str, str] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> str:
        """Return the value of the label."""
        shown = self._shown.get(name)
        return shown if shown is not None else self._new(name)

    def _new(self, name: str) -> str:
        with self._lock:
            if name in self._shown:
                return self._shown[name]
            if len(self._shown) >= self._names_max:
                return OTHER
            self._shown[name] = shown = printable(name)[:CHARACTERS_MAX]
            return shown
