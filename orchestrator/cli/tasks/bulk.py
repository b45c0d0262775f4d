"""Apply an action to many tasks: show how many and which, ask, act, and show the progress.

The command acts only after it has shown the number and some of the tasks, and the operator has agreed, at a terminal
or by --yes. The progress bar goes to standard error, and only to a terminal. An interrupted command prints how to
continue. It prints that before it begins as well, because a killed process prints nothing.
"""

import sys
import time
from dataclasses import dataclass
from typing import Any

import click
import psycopg
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from orchestrator.cli import formats
from orchestrator.cli.database import Command
from orchestrator.cli.signals import sigterm_as_interrupt
from orchestrator.cli.table import table
from orchestrator.cli.tasks import no_matches
from orchestrator.cli.tasks.listing import COLUMNS, lines
from orchestrator.operate import Action, Number, Search, bulk, find

SAMPLE = 5
WORDS = {
    Action.REQUEUE: ("run again", "requeued"),
    Action.CANCEL: ("be cancelled", "cancelled"),
    Action.DELETE: ("be deleted, and cannot be had back", "deleted"),
    Action.PRIORITY: ("get another priority", "changed"),
}


@dataclass(frozen=True, slots=True)
class Many:
    """An action on many tasks, and its options."""

    action: Action
    priority: int | None
    limit: int | None
    reason: str | None
    yes: bool
    dry_run: bool


def many_options(command: Command) -> Command:
    """Give a command the flags of an action on many tasks. They are passed as `limit`, `yes` and `dry_run`."""
    for option in (
        click.option("--yes", is_flag=True, help="Do not ask; required without a terminal."),
        click.option("--dry-run", is_flag=True, help="Show how many and which tasks, and change nothing."),
        click.option("--limit", type=click.IntRange(min=1), help="At most this many, the oldest first."),
    ):
        command = option(command)
    return command


def do(connection: psycopg.Connection[Any], many: Many, wanted: Search) -> None:
    """Show, ask, act and report."""
    # The search is pinned and counted before the question: the action then covers exactly what was counted.
    search = bulk.pinned(connection, wanted)
    number = find.count(connection, search)
    if number.count == 0 and number.exact:
        click.echo(no_matches.matches(connection, search))
        return
    preview(connection, many, search, number)
    if many.dry_run:
        return
    if not many.yes:
        confirm()
    act(connection, many, search, number)


def preview(connection: psycopg.Connection[Any], many: Many, search: Search, number: Number) -> None:
    """Print how many tasks match, and the first of them."""
    found = find.first(connection, search, most=min(SAMPLE, many.limit or SAMPLE))
    click.echo(f"{counted(number, many.limit)} will {WORDS[many.action][0]}; the first:")
    table(lines(found, find.now(connection)), COLUMNS, as_json=False, empty="-")


def counted(number: Number, limit: int | None) -> str:
    """Return how many tasks match, and how many of them the limit allows."""
    roughly = "" if number.exact else "at least " if number.at_least else "about "
    tasks = f"{roughly}{number.count:,} task{'' if number.count == 1 else 's'}"
    return f"{limit:,} of {tasks}" if limit is not None and limit < number.count else tasks


def confirm() -> None:
    """Ask at a terminal; without one, raise UsageError."""
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask at; add --yes")
    click.confirm("Go on?", abort=True, err=True)


def act(connection: psycopg.Connection[Any], many: Many, search: Search, number: Number) -> None:
    """Act, and print what was done, also after an interruption."""
    step, began = bulk.Step(0, 0), time.monotonic()
    total = min(number.count, many.limit or number.count)
    walk = bulk.walk(
        connection, many.action, search, priority=many.priority, most=many.limit, reason=many.reason
    )
    if total > bulk.BATCH:
        click.echo(f"if it is interrupted: {going_on(search)}", err=True)
    try:
        with sigterm_as_interrupt(), Progress(
            TextColumn(WORDS[many.action][1]), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), disable=total <= bulk.BATCH or not sys.stderr.isatty(), transient=True,
        ) as bar:  # fmt: skip
            drawn = bar.add_task("", total=total)
            for step in walk:
                bar.update(drawn, completed=step.done, total=max(step.done, total))
    except BaseException:
        rest = "" if many.limit is None else f" --limit {many.limit - step.done}"
        click.echo(f"stopped: {step.done:,} {WORDS[many.action][1]}; {going_on(search)}{rest}", err=True)
        raise
    took = formats.span(time.monotonic() - began)
    click.echo(f"{step.done:,} task{'' if step.done == 1 else 's'} {WORDS[many.action][1]} in {took}")
    if step.locked:
        raise click.ClickException(
            f"{step.locked:,} more are locked by another transaction and were not changed; run the same command again"
        )


def going_on(search: Search) -> str:
    """Return how to continue after an interruption. The moment keeps out tasks that have run and failed again since."""
    if search.before is None:
        return "the same command goes on"
    return f"to go on, the same command with --older-than {search.before.isoformat().replace('+00:00', 'Z')}"
