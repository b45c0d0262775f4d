"""`orchestrator tasks export`: whole tasks, one per line, for other programs."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Literal

import click

from orchestrator import observe
from orchestrator.cli import masked_json
from orchestrator.cli.database import connected, database_option
from orchestrator.cli.table import plain
from orchestrator.cli.tasks.filters import asked, filter_options
from orchestrator.operate import find

FIELDS = find.EXPORTED_FIELDS
# A spreadsheet runs text that begins with one of these. Numbers may begin so.
FORMULA = re.compile(r"[=+\-@\t\r]")
NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")

Row = Sequence[Any]


@click.command()
@filter_options
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--limit", type=click.IntRange(min=1), help="At most this many, the oldest first.")
@click.option("--unmasked", is_flag=True, help="Show the values of keys that look like secrets.")
@database_option
def export(
    form: Literal["jsonl", "csv"], limit: int | None, url: str | None, *, unmasked: bool, **given: Any
) -> None:
    """Write whole tasks to standard output, one per line.

    The format is JSON lines, or CSV. In CSV, text that a spreadsheet would run gets a leading '. The export reads page
    by page, so it may or may not contain changes made meanwhile. Values whose key looks like a secret are masked.
    """
    ask = asked(given)
    write = {"jsonl": json_line, "csv": csv_line}[form]
    with connected(url, "tasks export") as connection:
        if form == "csv":
            click.echo(written(FIELDS), nl=False)
        for row in find.export(connection, ask.at(connection), most=limit):
            click.echo(write(row, unmasked=unmasked), nl=False)


def json_line(row: Row, *, unmasked: bool) -> str:
    """Return a task as one line of JSON. Unmasked, its payload has every digit that the database has."""
    parts = (
        f"{masked_json.json(name)}: {json_of(name, value, unmasked=unmasked)}"
        for name, value in zip(FIELDS, row, strict=True)
    )
    return "{" + ", ".join(parts) + "}\n"


def json_of(name: str, value: Any, *, unmasked: bool) -> str:
    if value is None or name not in find.JSON_FIELDS:
        return masked_json.json(plain(value))
    return (
        masked_json.ascii_json(value)
        if unmasked
        else masked_json.json(masked_json.value(value, unmasked=False))
    )


def csv_line(row: Row, *, unmasked: bool) -> str:
    """Return a task as one line of CSV."""
    return written(
        [guarded(cell(name, value, unmasked=unmasked)) for name, value in zip(FIELDS, row, strict=True)]
    )


def cell(name: str, value: Any, *, unmasked: bool) -> str:
    if value is None:
        return ""
    if name in find.JSON_FIELDS:
        return json_of(name, value, unmasked=unmasked)
    found = plain(value)
    return observe.printable(found) if isinstance(found, str) else masked_json.json(found)


def guarded(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def written(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()
