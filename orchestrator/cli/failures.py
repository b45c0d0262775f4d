"""`orchestrator failures`: what goes wrong, by fault, and something to do about each."""

import click

from orchestrator import observe
from orchestrator.cli import figures
from orchestrator.cli.database import connected, database_option, json_option, reason_option
from orchestrator.cli.group import Commands
from orchestrator.cli.table import Column, table
from orchestrator.cli.tasks.many import Many, do, many_options
from orchestrator.operate import Deed
from orchestrator.operate import failures as operate

COLUMNS = (
    Column("group_id", heading="group"),
    Column("dead_letters", heading="dead", right=True, shown=figures.count),
    Column("retrying", right=True, shown=figures.count),
    Column("first_seen"),
    Column("last_seen"),
    Column("sample_id", heading="sample", right=True),
    Column("type"),
    Column("error_class"),
    Column("message", folds=True, shown=observe.masked_text),
)
newest_option = click.option(
    "--newest", type=click.IntRange(1, 10_000_000), default=operate.NEWEST, show_default=True,
    help="How many dead letters and failed attempts to look at.",
)  # fmt: skip


@click.group(cls=Commands, invoke_without_command=True)
@newest_option
@json_option
@database_option
@click.pass_context
def failures(context: click.Context, newest: int, url: str | None, *, as_json: bool) -> None:
    """Count dead letters and failing tasks by fault: type, error class, message.

    Numbers, uuids, paths and quoted text in a message do not count. It looks at the newest failures only, and counts
    these. `orchestrator tasks show SAMPLE` shows the newest task of a group.
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


@failures.command()
@click.argument("group")
@newest_option
@many_options
@reason_option
@database_option
def requeue(
    group: str,
    newest: int,
    limit: int | None,
    reason: str | None,
    url: str | None,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Run the dead letters of a GROUP again, also older ones than the list looked at.

    Tasks of the group that wait for a retry are left to it.
    """
    on_group(group, newest, url, Many(Deed.REQUEUE, None, limit, reason, yes, dry_run))


@failures.command()
@click.argument("group")
@newest_option
@many_options
@reason_option
@database_option
def discard(
    group: str,
    newest: int,
    limit: int | None,
    reason: str | None,
    url: str | None,
    *,
    yes: bool,
    dry_run: bool,
) -> None:
    """Delete the dead letters of a GROUP, also older ones than the list looked at.

    They cannot be had back. Tasks of the group that wait for a retry are left to it.
    """
    on_group(group, newest, url, Many(Deed.DELETE, None, limit, reason, yes, dry_run))


def on_group(group: str, newest: int, url: str | None, many: Many) -> None:
    with connected(url, f"failures {many.deed}", writes=not many.dry_run) as connection:
        found = operate.group(connection, group, newest=newest)
        fault = f"{found.type}: {found.error_class}: {observe.masked_text(found.message)}"
        click.echo(observe.printable(fault))
        do(connection, many, found.search)
