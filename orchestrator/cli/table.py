"""Lists for people and for programs.

At a terminal a table fits the width: some columns fold. If it still does not fit (40 columns, a long error), each row
is written as one line per column, as psql does with \\x. In a pipe or a file every row is one whole line, for grep and
awk. With --json the list is one array of objects with all fields, times in ISO 8601, spans in seconds. Untrusted text
is escaped in all three.
"""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from orchestrator.cli import formats
from orchestrator.observe import printable

GAP = 2
# A narrower folded column cannot be read.
FOLDED_WIDTH_MIN = 20
# The width without a terminal: nothing is cut.
ENDLESS = 10**6


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the field of a row, its heading, how a value is written. `folds`: its text may be wrapped. `spare`:
    the status screen leaves it out when there is no room."""

    name: str
    heading: str | None = None
    right: bool = False
    folds: bool = False
    spare: bool = False
    shown: Callable[[Any], str] = formats.shown

    @property
    def head(self) -> str:
        return self.name.replace("_", " ") if self.heading is None else self.heading


def table(rows: Iterable[Any], columns: Sequence[Column], *, as_json: bool, empty: str) -> None:
    """Print rows, which are dataclasses or mappings. Without rows, print the sentence `empty`."""
    found = [fields_of(row) for row in rows]
    if as_json:
        print_json(found)
    elif not found:
        click.echo(empty)
    else:
        show(laid_out(columns, cells_of(found, columns)))


def cells_of(rows: Iterable[Any], columns: Sequence[Column]) -> list[list[str]]:
    """Return the text of each cell, with control characters escaped."""
    return [
        [printable(column.shown(fields.get(column.name))) for column in columns]
        for fields in map(fields_of, rows)
    ]


def print_json(value: Any) -> None:
    """Print one JSON document in ASCII: an untrusted control sequence stays an escape."""
    click.echo(json.dumps(plain(value), indent=2))


def show(what: RenderableType) -> None:
    """Print a rich renderable: in colour and at the terminal's width, or plain and uncut without a terminal."""
    console = screen()
    with console.capture() as captured:
        console.print(what)
    # click prints it: on a closed pipe rich would exit with its own status.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def screen() -> Console:
    """Return a rich console for the terminal. It interprets no markup, emoji or patterns in texts."""
    width = None if sys.stdout.isatty() else ENDLESS
    return Console(highlight=False, markup=False, emoji=False, width=width, soft_wrap=False)


def laid_out(columns: Sequence[Column], cells: Sequence[Sequence[str]], *, width: int | None = None) -> Table:
    """Return a table that fits the width, without spare columns if needed; records if no table fits."""
    width = width or screen().width
    if least_width(columns, cells) <= width:
        return as_table(columns, cells)
    spare = [place for place, column in enumerate(columns) if column.spare]
    if spare:
        kept = [place for place in range(len(columns)) if place != spare[-1]]
        fewer = [[row[place] for place in kept] for row in cells]
        return laid_out([columns[place] for place in kept], fewer, width=width)
    return as_records(columns, cells)


def least_width(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> int:
    natural = [
        max(map(cell_len, texts)) for texts in zip([each.head for each in columns], *cells, strict=True)
    ]
    least = [
        min(size, FOLDED_WIDTH_MIN) if column.folds else size
        for column, size in zip(columns, natural, strict=True)
    ]
    return sum(least) + GAP * (len(columns) - 1)


def as_table(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Table:
    """Return each row as a line. Columns that fold share the width that the others leave."""
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), collapse_padding=True, header_style="bold")
    for column in columns:
        justify: Literal["left", "right"] = "right" if column.right else "left"
        made.add_column(Text(column.head), justify=justify, overflow="fold", no_wrap=not column.folds)
    for row in cells:
        made.add_row(*map(Text, row))
    return made


def as_records(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> Table:
    """Return each row as lines, each with a name and a value."""
    made = Table.grid(padding=(0, GAP, 0, 0))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for place, row in enumerate(cells):
        if place:
            made.add_row("", "")
        for column, text in zip(columns, row, strict=True):
            made.add_row(Text(column.head), Text(text))
    return made


def fields_of(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}


def plain(value: Any) -> Any:
    """Return a value as JSON types."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value)
        case Mapping():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each) for each in value]
        case None | bool() | int() | float() | str():
            return value
        case _ if dataclasses.is_dataclass(value):
            return plain(fields_of(value))
        case _:
            return str(value)
