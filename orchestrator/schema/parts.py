"""The generated parts of the .sql files, by the names in their markers. Each function returns lines.

`of` is the alias in front of each name: `kept of t` lists t.id, t.run_at, …
"""

from collections.abc import Callable

from orchestrator.postgres import statement
from orchestrator.schema import freeze
from orchestrator.schema.option_parts import OPTION_PARTS, listed
from orchestrator.schema.tables import metadata
from orchestrator.task.columns import KEPT, ONLY_OF_FEATURES
from orchestrator.task.tally import ENDS, ERRORS, WORDS


def kept(of: str) -> list[str]:
    return listed(KEPT, of=of, closing=",")


def kept_when_plain(of: str) -> list[str]:
    return listed((name for name in KEPT if name not in ONLY_OF_FEATURES), of=of, closing=",")


def only_of_features(of: str) -> list[str]:
    return listed((name for name in KEPT if name in ONLY_OF_FEATURES), of=of)


def outcomes(of: str) -> list[str]:
    """The columns of the statistics that count attempts."""
    return listed(WORDS, of=of, closing=",")


def outcomes_or_zero(of: str) -> list[str]:
    return listed((f"coalesce({of}.{word}, 0)" for word in WORDS), closing=",")


def outcomes_added(of: str) -> list[str]:
    return listed((f"{word} = {of}.{word} + excluded.{word}" for word in WORDS), closing=",")


def outcomes_summed(of: str) -> list[str]:
    """The sums of these columns, how many attempts failed, and how many ended."""
    errors, ended = (" + ".join(f"{of}.{word}" for word in words) for words in (ERRORS, ENDS))
    sums = listed((f"sum({of}.{word})::bigint AS {word}" for word in WORDS), closing=",")
    return [*sums, f"sum({errors}) AS errors,", f"sum({ended}) AS ended"]


def outcomes_returned(_of: str) -> list[str]:
    return [f"OUT {word} bigint," for word in WORDS]


def our_tables(_of: str) -> list[str]:
    return listed(f"orchestrator.{table.name}" for table in metadata.sorted_tables)


def ours(kind: str) -> Callable[[str], list[str]]:
    """The objects of every revision."""
    return lambda _of: listed(f"orchestrator.{name}" for name in sorted(freeze.ever(kind)))


def step(name: str) -> Callable[[str], list[str]]:
    """A step of a statement, without its comment."""
    _, *body = statement.load(__file__, "steps.sql", name).decode().splitlines()

    def lines(of: str) -> list[str]:
        return [line.replace("{of}", of) for line in body]

    return lines


PARTS: dict[str, Callable[[str], list[str]]] = {
    "kept": kept,
    "kept when plain": kept_when_plain,
    "only of features": only_of_features,
    "outcomes": outcomes,
    "outcomes or zero": outcomes_or_zero,
    "outcomes added": outcomes_added,
    "outcomes summed": outcomes_summed,
    "outcomes returned": outcomes_returned,
    "our views": ours("views"),
    "our tables": our_tables,
    "our functions": ours("functions"),
    "permits returned": step("permits_returned"),
    "count gate successes": step("count_gate_successes"),
    "count gate failures": step("count_gate_failures"),
    **OPTION_PARTS,
}
