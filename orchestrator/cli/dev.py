"""`orchestrator dev`: a server, its tables and a worker, in one command."""

import shlex
from pathlib import Path

import click

from orchestrator import events, observe
from orchestrator.app import Orchestrator
from orchestrator.cli.migrate import print_notice
from orchestrator.cli.worker import loaded, named, run
from orchestrator.postgres import connect, embedded_stop
from orchestrator.schema import migrate as schema

DATA = Path(".orchestrator/pgdata")


@click.command()
@click.argument("app")
@click.option("--url", help="An existing database, instead of an embedded server.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help=f"The folder of the embedded server.  [default: {DATA}]",
)
@click.option(
    "-q",
    "--queues",
    help="Queues to serve, separated by commas.  [default: those of APP's tasks, and default]",
)
@click.option("-c", "--concurrency", type=click.IntRange(min=1), help="Tasks at once.  [default: 20]")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="debug",
    show_default=True,
    help="The lowest level to log on standard error. Successes are logged at debug.",
)
def dev(
    app: str, url: str | None, data: Path | None, queues: str | None, concurrency: int | None, log_level: str
) -> None:
    """Run APP (MODULE:APP) and a server, for development.

    It starts a PostgreSQL server in a folder, upgrades the tables, and runs a worker. It takes the first database that
    is set: --url or --data, the URL in APP, ORCHESTRATOR_DATABASE_URL, an embedded server in the default folder (needs
    pg-orchestrator[embedded]). The folder keeps its data between runs. Ctrl-C stops the worker, and then the server,
    unless another process uses it.
    """
    if url and data:
        raise click.UsageError("--url and --data name two databases; give one of them")
    application = loaded(app)
    url = url or named_by(application, data)
    observe.follow(minimum=log_level)
    click.echo(f"PostgreSQL: {shown(url)}")
    try:
        prepare(url)
        run(application.worker(queues=named(queues), concurrency=concurrency, database_url=url))
        application.close()
    finally:
        embedded_stop.leave(url)


def named_by(application: Orchestrator, data: Path | None) -> str:
    """Return the URL of the database to use without --url."""
    if data is None and application.config.database_url:
        return application.config.database_url
    return f"embedded:{(data or DATA).expanduser().resolve()}"


def shown(url: str) -> str:
    """Name a database without its password."""
    return url if url.startswith("embedded:") else connect.describe(connect.conninfo(url))


def prepare(url: str) -> None:
    """Upgrade the tables if they are behind, and print how to reach them.

    The worker checks a schema that is newer.
    """
    before, newest = schema.state(url)
    if schema.is_behind(before):
        unsubscribe = events.subscribe(print_notice)
        schema.upgrade(url)
        unsubscribe()
        click.echo(schema.moved(before, newest))
    if url.startswith("embedded:"):
        click.echo(f"for your own processes: export ORCHESTRATOR_DATABASE_URL={shlex.quote(url)}")
        click.echo(f"to look at it:          orchestrator sql --url {shlex.quote(url)}")
