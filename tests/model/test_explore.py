"""The explorer, on systems that are small enough to check by hand."""

from collections.abc import Iterable

from tests.model.explore import Explorer, Found, Step


class Counter:
    """Two processes add one each: they read a number, and write it plus one.

    `careful`: they check the number again before they write. Otherwise, a wipe may send them back to the start.
    `holes`: a process may fall into a state that it cannot leave.
    """

    goal = "both arrive"

    def __init__(self, *, careful: bool, holes: bool = False) -> None:
        self._careful = careful
        self._holes = holes

    def start(self) -> tuple[int, tuple[str, ...]]:
        return 0, ("ready", "ready")

    def shared_steps(self, shared: int) -> Iterable[Step]:
        if self._careful:
            return
        yield Step("a wipe", shared, others="wipe", fault=True)

    def local_steps(self, shared: int, local: str, who: int) -> Iterable[Step]:
        match local.split():
            case ["ready"]:
                yield Step(f"{who} reads", shared, f"read {shared}")
            case ["read", number] if self._careful and int(number) != shared:
                yield Step(f"{who} looks again", shared, "ready")
            case ["read", number]:
                wrong = None if int(number) == shared else "no addition is lost"
                yield Step(f"{who} writes", int(number) + 1, "done", broken=wrong)
        if self._holes and local == "ready":
            yield Step(f"{who} falls", shared, "fallen")

    def touched(self, local: str, others: str) -> str:
        return "ready" if others == "wipe" and local != "done" else local

    def is_goal(self, shared: int) -> bool:
        return shared == 2


def test_the_shortest_way_to_a_broken_invariant_is_reported() -> None:
    """Both read, one writes, and then the other writes a wrong number."""
    found = Explorer(Counter(careful=False)).run().found

    assert found is not None
    assert "no addition is lost" == found.invariant
    assert 4 == len(found.trace)
    assert {"0 reads", "1 reads"} == set(found.trace[:2])


def test_a_walk_without_a_fault_ends_and_counts_its_states() -> None:
    """At 0, each process is ready or has read. At 1, one is done, and the other is ready, has read 0 or has read 1, in
    two ways. At 2, both are done."""
    walk = Explorer(Counter(careful=True)).run(to_the_goal=True)

    assert walk.finished
    assert None is walk.found
    assert 4 + 2 * 3 + 1 == walk.states


def test_a_state_without_a_way_to_the_goal_is_found() -> None:
    """A process that falls never reaches the goal."""
    found = Explorer(Counter(careful=True, holes=True)).run(to_the_goal=True).found

    end = "from here, no path without a fault leads to the end"
    assert found in [Found("both arrive", (f"{who} falls", end)) for who in (0, 1)]


def test_a_walk_stops_at_its_limit() -> None:
    """The result says that it did not see all states."""
    walk = Explorer(Counter(careful=True)).run(states_max=3)

    assert not walk.finished
    assert walk.states < 11
