"""`orchestrator leader`: which worker does the maintenance."""

import click

from orchestrator.cli import formats
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.table import print_json
from orchestrator.observe import printable
from orchestrator.operate.status import leader as look


@click.command()
@database_option
@json_option
def leader(url: str | None, *, as_json: bool) -> None:
    """Show which worker leads, and its term.

    The leader takes back the tasks of dead workers, enforces timeouts, and maintains the tables. Any worker can lead:
    when the leader ends, another takes over within seconds.
    """
    with connected(url, "leader") as connection:
        found = look(connection)
    if as_json:
        print_json(found)
    elif found is None:
        click.echo("no worker leads: none runs, or the last leader has just gone")
    else:
        heard = f"last heard of {formats.span(found.beat_age)} ago"
        click.echo(
            printable(f"{found.host}:{found.pid} leads, in term {found.term}; {heard} (worker {found.id})")
        )
