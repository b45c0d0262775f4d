"""The generated parts of the .sql files, by the names in their markers. Each function returns lines.

`of` is the alias in front of each name: `kept of t` lists t.id, t.run_at, …
"""

from collections.abc import Callable

from orchestrator.postgres import statement
from orchestrator.schema.option_parts import OPTION_PARTS, listed
from orchestrator.task.columns import KEPT, ONLY_OF_GUESTS


def kept(of: str) -> list[str]:
    return listed(KEPT, of=of, closing=",")


def kept_when_plain(of: str) -> list[str]:
    return listed((name for name in KEPT if name not in ONLY_OF_GUESTS), of=of, closing=",")


def step(name: str) -> Callable[[str], list[str]]:
    """A step of a statement, without its comment."""
    _, *body = statement.load(__file__, "steps.sql", name).decode().splitlines()

    def lines(of: str) -> list[str]:
        return [line.replace("{of}", of) for line in body]

    return lines


PARTS: dict[str, Callable[[str], list[str]]] = {
    "kept": kept,
    "kept when plain": kept_when_plain,
    "permits returned": step("permits_returned"),
    "count gate successes": step("count_gate_successes"),
    "count gate failures": step("count_gate_failures"),
    **OPTION_PARTS,
}
