"""`orchestrator tasks requeue | cancel | delete | priority`: on the tasks that are named, or on all that match."""

from typing import Any

import click

from orchestrator import operate
from orchestrator.cli.database import Command, connected, database_option, reason_option
from orchestrator.cli.error_messages import say
from orchestrator.cli.tasks.bulk import WORDS, Many, do, many_options
from orchestrator.cli.tasks.filters import Asked, asked, filter_options, typed
from orchestrator.errors import OperationRefused, TaskExpired
from orchestrator.operate import Action, bulk
from orchestrator.operate.filters import priority as level_of


def action_options(command: Command) -> Command:
    """Give a command the options of all actions."""
    for option in (database_option, reason_option, many_options, filter_options):
        command = option(command)
    return command


@click.command()
@action_options
def requeue(**given: Any) -> None:
    """Requeue tasks, with fresh attempts: those with these ids, or all that match.

    Filters select dead letters unless --status is given. A running task that is selected, by its id or by --status, is
    taken from its worker.
    """
    run(Action.REQUEUE, given)


@click.command()
@action_options
def cancel(**given: Any) -> None:
    """Cancel tasks: those with these ids, or all that match.

    Filters select waiting tasks unless --status is given. A running task that is selected, by its id or by --status,
    is taken from its worker.
    """
    run(Action.CANCEL, given)


@click.command()
@action_options
def delete(**given: Any) -> None:
    """Delete tasks: those with these ids, or all that match.

    Filters require --status. A deleted task cannot be restored. Its idempotency key can be used again; its records in
    the audit and history stay.
    """
    run(Action.DELETE, given)


@click.command()
@click.argument("level")
@action_options
def priority(level: str, **given: Any) -> None:
    """Change the priority of waiting tasks: those with these ids, or all that match.

    LEVEL is a number from 0 to 100, or low (25), normal (50), high (75), critical (100). A higher number runs sooner.
    """
    with typed():
        to = level_of(level)
    run(Action.PRIORITY, given, priority=to)


def run(action: Action, given: dict[str, Any], *, priority: int | None = None) -> None:
    """Apply the action to the tasks that the command line selects."""
    ask = asked(given)
    many = Many(action, priority, *(given[name] for name in ("limit", "reason", "yes", "dry_run")))
    if ask.search.ids:
        if ask != Asked.of_ids(ask.search.ids):
            raise click.UsageError("name tasks, or filter them; not both")
        named(many, ask.search.ids, given["url"])
    elif ask.is_everything:
        raise click.UsageError("say which: ids, or at least one filter, for example --status dead_letter")
    else:
        with typed():
            wanted = bulk.meant(action, ask.search)
        with connected(given["url"], f"tasks {action}", writes=not many.dry_run) as connection:
            do(connection, many, ask.at(connection, wanted))


def named(many: Many, ids: tuple[int, ...], url: str | None) -> None:
    """Apply the action to each of these tasks, one by one. A refused or locked task does not stop the others."""
    refused = 0
    with connected(url, f"tasks {many.action}", writes=not many.dry_run) as connection:
        for task_id in ids:
            if many.dry_run:
                click.echo(f"task {task_id} would {WORDS[many.action][0]}")
                continue
            try:
                operate.act(connection, many.action, task_id, priority=many.priority, reason=many.reason)
            except (OperationRefused, TaskExpired) as error:
                say(str(error))
                refused += 1
            except bulk.InTheWay as error:
                say(f"task {task_id}: {error}")
                refused += 1
            else:
                click.echo(f"task {task_id} {WORDS[many.action][1]}")
    if refused:
        raise click.exceptions.Exit(1)
