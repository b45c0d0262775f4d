"""`orchestrator explain ID`: why is this task not running?"""

import click

from orchestrator import operate
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.table import print_json
from orchestrator.observe import printable
from orchestrator.operate import filters


@click.command()
@click.argument("task_id", metavar="ID", type=click.IntRange(1, filters.ID_MAX))
@database_option
@json_option
def explain(task_id: int, url: str | None, *, as_json: bool) -> None:
    """Say why a task is not running, and what helps.

    It reports the first cause that it finds. In SQL: SELECT orchestrator.explain(42). The exit status is 1 if there is
    no such task.
    """
    with connected(url, "explain") as connection:
        found = operate.explain(connection, task_id)
    if as_json:
        print_json(found)
    else:
        click.echo(printable(found.says))
        if found.command is not None:
            click.echo(f"  {printable(found.command)}")
    if found.is_absent:
        raise click.exceptions.Exit(1)
