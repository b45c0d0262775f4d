"""The output for people: no line is wider than the terminal, and no number is cut off."""

import io

import pytest
from rich.console import Console

from orchestrator.bench.formats import short
from orchestrator.bench.meter import Spent
from orchestrator.bench.result import Goal, Measure, Result, Skipped
from orchestrator.bench.rounds import Round
from orchestrator.bench.screen import Screen, bar
from orchestrator.bench.system_info import SystemInfo

SETTING = SystemInfo(
    at="2026-01-01T00:00:00+00:00", sizes="usual", orchestrator="1", python="3", psycopg="3", system="Linux",
    processor="A processor of a name that is rather long, as they are", cores=2, server_version="18.0",
    server_settings={"fsync": "off"},
)  # fmt: skip
MEASURE = Measure("throughput", "", lambda _: iter(()))
SPENT = Spent(client_seconds=12.3456, server_seconds=None, wal_bytes=123_456_789)
RESULTS: list[Result | Skipped] = [
    Result(line="throughput, one process", unit="tasks/s", tasks=10_000,
           ours=(Round(112_345.6, SPENT),), floor=(Round(98_765.4),),
           goals=(Goal(least=1.3), Goal(of="p99 ms", most=1.0)), details={"p99 ms": 1.23456}),
    Result(line="32 producers, 2 elsewhere", unit="ms", ours=(Round(0.123456),), floor=(Round(123.456),)),
    Result(line="memory and connections", unit="MB", ours=(Round(1_234.5),)),
    Skipped("throughput, commit_delay 2 ms", "fsync is off on this server, and commit_delay has no effect without it"),
]  # fmt: skip


def shown(width: int) -> str:
    """Show everything at this width."""
    text = io.StringIO()
    screen = Screen(Console(file=text, width=width, highlight=False, markup=False, emoji=False))
    screen.begin(SETTING)
    for result in RESULTS:
        screen.result(MEASURE, result)
    screen.end()
    return text.getvalue()


@pytest.mark.parametrize("width", [40, 60, 75, 76, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """At any width all figures are there, whole."""
    text = shown(width)

    assert max(len(line) for line in text.splitlines()) <= width
    for figure in ("112k/s", "98.8k/s", "✗1.14", "0.123 ms", "123 ms", "1,234 MB", "skipped, fsync is off"):
        assert figure in " ".join(text.split()), text
    assert "…" not in text


def test_costs_are_shown_where_there_is_room() -> None:
    """At 80 columns there is; what is not known is a dash."""
    assert "12.3+- 12,346" in shown(80)
    assert "12.3+-" not in shown(60)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.0123"), (1.0, "1"), (99.9, "100"), (9_994.0, "9,994"), (9_996.0, "10k"), (1_234_567.0, "1.23M")],
)  # fmt: skip
def test_numbers_keep_three_digits(value: float, text: str) -> None:
    """More would be noise."""
    assert text == short(value)


def test_a_bar_is_full_at_two() -> None:
    """One is its middle, so that better and worse are seen at a glance."""
    assert ("", "████", "████████", "████████") == (bar(None), bar(1.0), bar(2.0), bar(7.5))
