"""`orchestrator queues …`: list the queues, and change their state and settings."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import click

from orchestrator.cli import formats
from orchestrator.cli.database import connected, database_option, json_option, reason_option
from orchestrator.cli.group import Commands
from orchestrator.cli.parameters import span
from orchestrator.cli.table import Column, fields_of, table
from orchestrator.observe import printable
from orchestrator.operate import queues as operating
from orchestrator.operate.queues import CLEARABLE, Change, Queue, State

COUNTS = (
    Column("name", "queue"),
    Column("state"),
    Column("ready", right=True, shown=formats.count),
    Column("held", "running", right=True, shown=formats.count),
    Column("scheduled", right=True, shown=formats.count),
    Column("dead_letters", "dead", right=True, shown=formats.count),
    Column("oldest_ready_age", "oldest", right=True),
    Column("note", "since", folds=True),
)
SETTINGS = (
    Column("name", "queue"),
    Column("priority", right=True),
    Column("max_attempts", "attempts", right=True),
    Column("timeout", right=True),
    Column("aging", right=True),
    Column("keep_finished", "finished kept", right=True),
    Column("keep_dead", "dead kept", right=True),
)
# An aging this long means strict priority.
STRICT = timedelta(days=300_000)


@click.group(cls=Commands)
def queues() -> None:
    """List, pause, resume, drain or configure queues."""


@queues.command("list")
@database_option
@json_option
@click.option("--settings", is_flag=True, help="Show their defaults for tasks, and how long they keep tasks.")
@click.option("--exact", is_flag=True, help="Count every task, even if that is slow.")
def list_queues(url: str | None, *, as_json: bool, settings: bool, exact: bool) -> None:
    """List all queues: their state, and their numbers of tasks."""
    with connected(url, "queues list") as connection:
        found = operating.queues(connection, exact=exact)
    if settings and not as_json:
        table([shown_settings(each) for each in found], SETTINGS, as_json=False, empty="there are no queues")
        return
    rows: Sequence[Any] = found if as_json else [{**fields_of(each), "note": note(each)} for each in found]
    table(rows, COUNTS, as_json=as_json, empty="there are no queues")


@queues.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@database_option
@reason_option
def pause(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Stop claiming tasks from these queues.

    It takes effect at the next claim, and lasts until `queues resume`, also over restarts. Running tasks go on; new
    tasks wait.
    """
    set_all(names, "paused", url, reason)


@queues.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@database_option
@reason_option
def resume(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Make paused or draining queues active again."""
    set_all(names, "active", url, reason)


@queues.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@database_option
@reason_option
def drain(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Refuse new tasks in these queues, and finish those they hold.

    Enqueueing into a draining queue raises an error.
    """
    set_all(names, "draining", url, reason)


@queues.command("set")
@click.argument("name", metavar="QUEUE")
@click.option("--priority", type=click.IntRange(0, 100), help="The default priority of new tasks.")
@click.option("--max-attempts", type=click.IntRange(1, 32_767), help="The default number of attempts.")
@click.option("--timeout", type=span, help="The default time limit of an attempt.")
@click.option(
    "--aging", type=span, help="The waiting time that equals one point of priority. Cleared: strict priority."
)
@click.option("--keep-finished", type=span, help="How long completed and cancelled tasks are kept.")
@click.option("--keep-dead", type=span, help="How long dead letters are kept.")
@click.option("--clear", type=click.Choice(CLEARABLE), multiple=True, help="Return to the built-in default.")
@database_option
@json_option
@reason_option
def set_queue(
    name: str, url: str | None, reason: str | None, clear: Sequence[str], *, as_json: bool, **given: Any
) -> None:
    """Set a queue's defaults for new tasks, and how long it keeps finished tasks.

    Options of the type and of the enqueue override these defaults. Existing tasks keep their values. Without options
    the command shows the settings. A span is 90s, 5m, 1h30m, 2d or 1w.
    """
    if both := [each for each in clear if given[each] is not None]:
        raise click.UsageError(f"--clear {both[0]} and --{both[0].replace('_', '-')} contradict each other")
    what = Change(**given, clear=clear)
    changes = what != Change()
    with connected(url, "queues set", writes=changes) as connection:
        if changes:
            operating.change(connection, name, what, reason=reason)
        found = operating.queue(connection, name)
    table([found if as_json else shown_settings(found)], SETTINGS, as_json=as_json, empty="")


DONE: Mapping[State, str] = {
    "paused": "paused {}: running tasks go on, and no other begins",
    "active": "resumed {}",
    "draining": "draining {}: what is in it is finished, new tasks are refused",
}


def set_all(names: Sequence[str], state: State, url: str | None, reason: str | None) -> None:
    """Set the state of some queues, one after the other. The first unknown queue ends the command."""
    command = {"paused": "queues pause", "active": "queues resume", "draining": "queues drain"}[state]
    with connected(url, command, writes=True) as connection:
        for name in dict.fromkeys(names):
            operating.set_state(connection, name, state, reason=reason)
            click.echo(DONE[state].format(printable(name)))


def note(queue: Queue) -> str:
    """Return since when a queue is not active, who changed it, and the reason."""
    if queue.state == "active":
        return ""
    by = f" by {queue.state_by}" if queue.state_by else ""
    why = f": {queue.state_reason}" if queue.state_reason else ""
    return f"{formats.moment(queue.state_since)}{by}{why}"


def shown_settings(queue: Queue) -> Mapping[str, Any]:
    aging = "strict" if queue.aging is not None and queue.aging >= STRICT else queue.aging
    return {**fields_of(queue), "aging": aging}
