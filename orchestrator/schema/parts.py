"""The generated parts of the .sql files, by the names in their markers. Each function returns lines.

`of` is the alias in front of each name: `kept of t` lists t.id, t.run_at, …
"""

from collections.abc import Callable
from pathlib import Path

from orchestrator.schema.option_parts import OPTION_PARTS, listed
from orchestrator.task.columns import KEPT, ONLY_OF_GUESTS

STEPS = Path(__file__).with_name("steps")


def kept(of: str) -> list[str]:
    return listed(KEPT, of=of, closing=",")


def kept_when_plain(of: str) -> list[str]:
    return listed((name for name in KEPT if name not in ONLY_OF_GUESTS), of=of, closing=",")


def only_of_guests(of: str) -> list[str]:
    return listed((name for name in KEPT if name in ONLY_OF_GUESTS), of=of)


def step(name: str) -> Callable[[str], list[str]]:
    """A step of a statement, from its own file."""

    def lines(of: str) -> list[str]:
        _, *body = (STEPS / f"{name}.sql").read_text(encoding="utf-8").splitlines()
        return [line.replace("{of}", of) for line in body]

    return lines


PARTS: dict[str, Callable[[str], list[str]]] = {
    "kept": kept,
    "kept when plain": kept_when_plain,
    "only of guests": only_of_guests,
    "permits returned": step("permits_returned"),
    "count gate successes": step("count_gate_successes"),
    "count gate failures": step("count_gate_failures"),
    **OPTION_PARTS,
}
