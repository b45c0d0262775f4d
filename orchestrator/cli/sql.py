"""`orchestrator sql`: psql on the database."""

import click

from orchestrator.config import Config
from orchestrator.postgres import psql


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": True})
@click.option("--url", help="The database. Default: ORCHESTRATOR_DATABASE_URL.")
@click.argument("arguments", metavar="[PSQL OPTIONS]...", nargs=-1, type=click.UNPROCESSED)
def sql(url: str | None, arguments: tuple[str, ...]) -> None:
    """Open psql on the database. An embedded: server runs until psql ends.

    All arguments except --url go to psql: -c "SELECT 1", -f FILE, -At. The exit status is that of psql. The password
    is never on psql's command line.
    """
    raise click.exceptions.Exit(psql.run(url or Config.load().database_url, arguments))
