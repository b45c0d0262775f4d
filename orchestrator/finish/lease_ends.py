"""What the ends of leases have written beside the tasks: the keys of the permits that came back, and of the gates that
count an ended task.

The rows are in `permits_returned` and `gate_changes`, from all seven ways in which a lease ends. A worker knows the
keys of those that it has written itself, and tells the companions of features (feature/companion.py) after the commit.
"""

from collections.abc import Iterable
from typing import NamedTuple


class LeaseEnds(NamedTuple):
    """The keys: `hold` of permits_returned, `gate` of gate_changes. False if there are none, as for plain tasks."""

    holds: frozenset[int]
    gates: frozenset[int]

    def __bool__(self) -> bool:
        return bool(self.holds or self.gates)

    def __or__(self, other: "LeaseEnds") -> "LeaseEnds":
        return LeaseEnds(self.holds | other.holds, self.gates | other.gates)


NO_ENDS = LeaseEnds(frozenset(), frozenset())


def lease_ends(holds: Iterable[int] | None = None, gates: Iterable[int] | None = None) -> LeaseEnds:
    """Return these keys; None: there are none."""
    return LeaseEnds(frozenset(holds or ()), frozenset(gates or ()))
