"""`orchestrator queues …`: look at the queues, and steer them."""

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
# Of strict priority: as good as for ever.
STRICT = timedelta(days=300_000)


@click.group(cls=Commands)
def queues() -> None:
    """Look at the queues, and pause, resume, drain or set them."""


@queues.command("list")
@database_option
@json_option
@click.option("--settings", is_flag=True, help="Show what their tasks get, and how long they are kept.")
@click.option("--exact", is_flag=True, help="Count every task, however long it takes.")
def list_queues(url: str | None, *, as_json: bool, settings: bool, exact: bool) -> None:
    """All queues: their state, and what waits in them."""
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
    """Hand out no tasks of these queues.

    Takes effect with the next claim, and lasts until somebody resumes, through restarts as well. What runs goes on,
    what is new waits.
    """
    set_all(names, "paused", url, reason)


@queues.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@database_option
@reason_option
def resume(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Let paused or draining queues go on."""
    set_all(names, "active", url, reason)


@queues.command()
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@database_option
@reason_option
def drain(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Take no new tasks into these queues, and finish the old.

    Whoever enqueues into a draining queue is refused with an error.
    """
    set_all(names, "draining", url, reason)


@queues.command("set")
@click.argument("name", metavar="QUEUE")
@click.option("--priority", type=click.IntRange(0, 100), help="Of tasks for which nobody says another.")
@click.option("--max-attempts", type=click.IntRange(1, 32_767), help="Executions, in all.")
@click.option("--timeout", type=span, help="What an attempt may take.")
@click.option(
    "--aging", type=span, help="The waiting that a point of priority is worth; cleared, it is strict."
)
@click.option("--keep-finished", type=span, help="How long completed and cancelled tasks are kept.")
@click.option("--keep-dead", type=span, help="How long dead letters are kept.")
@click.option("--clear", type=click.Choice(CLEARABLE), multiple=True, help="Back to the house's default.")
@database_option
@json_option
@reason_option
def set_queue(
    name: str, url: str | None, reason: str | None, clear: Sequence[str], *, as_json: bool, **given: Any
) -> None:
    """Say what new tasks of a queue get, and how long it keeps what has ended.

    What a type or whoever enqueues says comes before this; tasks that are there keep what they have. Without an option
    it shows what holds. A span is 90s, 5m, 1h30m, 2d or 1w.
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
    "paused": "paused {}: what runs goes on, nothing more is handed out",
    "active": "resumed {}",
    "draining": "draining {}: what is in it is finished, new tasks are refused",
}


def set_all(names: Sequence[str], state: State, url: str | None, reason: str | None) -> None:
    """Set the state of some queues, one after the other; the first that is unknown ends it."""
    command = {"paused": "queues pause", "active": "queues resume", "draining": "queues drain"}[state]
    with connected(url, command, writes=True) as connection:
        for name in dict.fromkeys(names):
            operating.set_state(connection, name, state, reason=reason)
            click.echo(DONE[state].format(printable(name)))


def note(queue: Queue) -> str:
    """Say since when a queue is not active, by whom and why."""
    if queue.state == "active":
        return ""
    by = f" by {queue.state_by}" if queue.state_by else ""
    why = f": {queue.state_reason}" if queue.state_reason else ""
    return f"{formats.moment(queue.state_since)}{by}{why}"


def shown_settings(queue: Queue) -> Mapping[str, Any]:
    aging = "strict" if queue.aging is not None and queue.aging >= STRICT else queue.aging
    return {**fields_of(queue), "aging": aging}
