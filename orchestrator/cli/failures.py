"""`orchestrator failures`: failures grouped by fault, and commands to requeue or discard a group."""

from dataclasses import replace
from typing import Any

import click

from orchestrator import observe
from orchestrator.cli import formats
from orchestrator.cli.database import Command, connected, database_option, json_option, reason_option
from orchestrator.cli.group import Commands
from orchestrator.cli.table import Column, table
from orchestrator.cli.tasks.bulk import Many, do, many_options
from orchestrator.cli.tasks.filters import typed
from orchestrator.operate import Action, filters, find
from orchestrator.operate import failures as operate

COLUMNS = (
    Column("group_id", heading="group"),
    Column("dead_letters", heading="dead", right=True, shown=formats.count),
    Column("retrying", right=True, shown=formats.count),
    Column("first_seen"),
    Column("last_seen"),
    Column("sample_id", heading="sample", right=True),
    Column("type"),
    Column("error_class"),
    Column("message", folds=True, shown=observe.masked_text),
)
newest_option = click.option(
    "--newest", type=click.IntRange(1, 10_000_000), default=operate.NEWEST, show_default=True,
    help="How many dead letters and failed attempts to read.",
)  # fmt: skip

older_than_option = click.option(
    "--older-than", metavar="AGE", help="Only tasks that ended before: 2h, 7d, 2026-11-18T02:30Z."
)


@click.group(cls=Commands, invoke_without_command=True)
@newest_option
@json_option
@database_option
@click.pass_context
def failures(context: click.Context, newest: int, url: str | None, *, as_json: bool) -> None:
    """Count dead letters and failing tasks by fault: type, error class, message.

    Messages that differ only in numbers, uuids, paths or quoted text are one group. Only the newest failures are
    counted. `orchestrator tasks show SAMPLE` shows the newest task of a group.
    """
    if context.invoked_subcommand is not None:
        return
    with connected(url, "failures") as connection:
        found = operate.groups(connection, newest=newest)
    table(
        found,
        COLUMNS,
        as_json=as_json,
        empty="nothing fails: no dead letter, and no task that waits for a retry",
    )
    if sum(group.dead_letters for group in found) >= newest:
        click.echo(
            f"only the newest {newest:,} dead letters were looked at; --newest looks at more", err=True
        )


def on_group(command: Command) -> Command:
    """Give a command the options of an action on a group."""
    for option in (
        database_option, reason_option, many_options, older_than_option, newest_option, click.argument("group"),
    ):  # fmt: skip
        command = option(command)
    return command


@failures.command()
@on_group
def requeue(**given: Any) -> None:
    """Requeue the dead letters of a GROUP, also those older than the list.

    Tasks of the group that wait for a retry are not changed.
    """
    run(Action.REQUEUE, **given)


@failures.command()
@on_group
def discard(**given: Any) -> None:
    """Delete the dead letters of a GROUP, also those older than the list.

    Deleted tasks cannot be restored. Tasks of the group that wait for a retry are not changed.
    """
    run(Action.DELETE, **given)


def run(
    action: Action, *, group: str, newest: int, older_than: str | None, url: str | None, **how: Any
) -> None:
    """Show the group, and apply the action to its dead letters."""
    many = Many(action, None, **how)
    with typed():
        filters.check_age(older_than)
    with connected(url, f"failures {action}", writes=not many.dry_run) as connection:
        found = operate.group(connection, group, newest=newest)
        fault = f"{found.type}: {found.error_class}: {observe.masked_text(found.message)}"
        click.echo(observe.printable(fault))
        do(connection, many, replace(found.search, before=find.age(connection, older_than)))
