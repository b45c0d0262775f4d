"""Printed lists: at terminals of any width, in a pipe, as JSON, with any content."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from orchestrator.cli import formats, table
from orchestrator.cli.table import Column

COLUMNS = (
    Column("id", right=True),
    Column("type"),
    Column("error_class", "error"),
    Column("message", folds=True),
)
HOSTILE = "\x1b[2J\x9b31m\x07‮evil\r\n[red]:smile:"


@dataclass(frozen=True)
class Row:
    """A row of a command's list."""

    id: int
    type: str
    error_class: str | None
    message: str


ROWS = (
    Row(7, "mail.send", None, "short"),
    Row(1234567, "report.monthly", "TimeoutError", "word " * 30 + "end"),
)


class Screen:
    """The place of the output: a pipe, or a terminal with a width."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def printed(self, rows: Any = ROWS, *, width: int | None = None, as_json: bool = False) -> str:
        """Print the rows, and return the output."""
        with self._monkeypatch.context() as patch:
            if width is not None:
                # Here, and not in a fixture: pytest puts another stream there for each phase of a test.
                patch.setattr("sys.stdout.isatty", lambda: True)
                for name, text in (("COLUMNS", str(width)), ("TERM", "xterm"), ("NO_COLOR", "1")):
                    patch.setenv(name, text)
            table.table(rows, COLUMNS, as_json=as_json, empty="there is nothing")
        return re.sub(r"\x1b\[[01]m", "", self._capsys.readouterr().out)


@pytest.fixture
def screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A place for output."""
    return Screen(capsys, monkeypatch)


def test_without_a_terminal_a_row_is_a_line_and_whole(screen: Screen) -> None:
    """For grep and awk: nothing is folded, cut or coloured."""
    lines = screen.printed().splitlines()

    assert [
        "     id  type            error         message",
        "      7  mail.send       -             short",
    ] == lines[:2]
    assert lines[2:] == ["1234567  report.monthly  TimeoutError  " + "word " * 30 + "end"]


@pytest.mark.parametrize("width", [30, 40, 80, 120, 200])
def test_at_a_terminal_nothing_is_wider_and_nothing_is_lost(screen: Screen, width: int) -> None:
    """Columns fold, or the row becomes lines; every word of it is there."""
    text = screen.printed(width=width)

    assert max(map(len, text.splitlines())) <= width
    assert 30 == text.count("word")
    for word in ("1234567", "report.monthly", "TimeoutError", "end"):
        assert word in text


def test_a_narrow_terminal_shows_records(screen: Screen) -> None:
    """At 40 columns: name and value, and a line between two rows."""
    lines = [line.rstrip() for line in screen.printed(width=40).splitlines()]

    assert [
        "id       7",
        "type     mail.send",
        "error    -",
        "message  short",
        "",
        "id       1234567",
    ] == lines[:6]


@pytest.mark.parametrize("width", [None, 40, 120])
def test_hostile_text_is_escaped(screen: Screen, width: int | None) -> None:
    """It neither clears the screen nor forges a line, and markup is plain text."""
    text = screen.printed([Row(1, HOSTILE, HOSTILE, HOSTILE)], width=width)

    assert all(each.isprintable() for each in text.replace("\n", ""))
    assert "[red]:smile:" in text
    assert "\\x1b[2J" in text


def test_json_is_one_array_of_all_that_is_known(screen: Screen) -> None:
    """Also if it is empty. It is ASCII, so that no character controls a terminal."""
    rows = [{"id": 1, "type": HOSTILE, "not shown": [UUID(int=7), Decimal("1.5"), timedelta(minutes=2)]}]
    text = screen.printed(rows, as_json=True)

    assert text.replace("\n", "").isascii()
    assert text.replace("\n", "").isprintable()
    assert [{"id": 1, "type": HOSTILE, "not shown": [str(UUID(int=7)), 1.5, 120.0]}] == json.loads(text)
    assert [] == json.loads(screen.printed([], as_json=True))
    assert ["2026-01-02T03:04:05+00:00", None] == table.plain(
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None)
    )


def test_an_empty_table_is_one_sentence(screen: Screen) -> None:
    """An empty screen would be unclear."""
    assert "there is nothing\n" == screen.printed([])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "0s"), (0.04, "0s"), (0.3, "0.3s"), (5, "5s"), (9.96, "10s"), (42, "42s"), (59.6, "1m"),
        (200, "3m 20s"), (3600, "1h"), (18_060, "5h 1m"), (86_399.7, "1d"), (1_051_200, "12d 4h"), (-5, "-5s"),
        (timedelta(days=400), "400d"),
    ],
)  # fmt: skip
def test_spans_are_written_in_two_units(seconds: float | timedelta | None, text: str) -> None:
    """More units are of no use."""
    assert text == formats.span(seconds)
