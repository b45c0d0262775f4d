"""`orchestrator version`: the versions of this program, of the schema and of the server."""

from dataclasses import dataclass

import click

from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.table import print_json
from orchestrator.config import Config
from orchestrator.schema import migrate as schema
from orchestrator.version import __version__


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions. The last two are None without a database."""

    orchestrator: str
    brings_schema: str
    schema: str | None
    postgresql: str | None


@click.command()
@database_option
@json_option
def version(url: str | None, *, as_json: bool) -> None:
    """Show the versions of this program, of the schema and of the server.

    Without a database it shows its own version only.
    """
    found = versions(url or Config.load().database_url)
    if as_json:
        print_json(found)
        return
    click.echo(f"orchestrator {found.orchestrator}, which brings schema {found.brings_schema}")
    if found.postgresql is not None:
        click.echo(
            f"the database has schema {found.schema or 'nothing yet'}, on PostgreSQL {found.postgresql}"
        )


def versions(url: str) -> Versions:
    if not url:
        return Versions(__version__, schema.head(), None, None)
    with connected(url, "version", checks=False) as connection:
        server = connection.info.parameter_status("server_version")
        present, newest = schema.state(url)
    return Versions(__version__, newest, present, server)
