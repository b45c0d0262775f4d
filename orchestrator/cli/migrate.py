"""`orchestrator migrate`: bring the schema to the version that this program needs."""

from contextlib import closing

import click

from orchestrator import events, observe
from orchestrator.cli.load_application import load_app
from orchestrator.config import Config
from orchestrator.errors import DatabaseRestored
from orchestrator.execute import declare
from orchestrator.postgres import connect
from orchestrator.schema import compatibility
from orchestrator.schema import migrate as schema


@click.command()
@click.argument("app", required=False)
@click.option("--url", help="The database. Default: ORCHESTRATOR_DATABASE_URL.")
@click.option(
    "--to",
    default="head",
    show_default=True,
    metavar="REVISION",
    help="The revision to migrate up to. `base` removes the schema, but nothing that other programs use.",
)
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if the database is behind.")
@click.option("--sql", is_flag=True, help="Change nothing; print the SQL, for another role or tool to run.")
@click.option("--yes", is_flag=True, help="Do not ask before deleting tables.")
def migrate(app: str | None, url: str | None, to: str, *, check: bool, sql: bool, yes: bool) -> None:
    """Migrate the database's schema to this version. Several hosts may run it at once.

    With APP (MODULE:APP) it also declares that application's task types. Tasks that SQL enqueues then get their
    defaults before the first worker starts.
    """
    if sql:
        click.echo(schema.script())
        return
    application = load_app(app) if app else None
    url = url or (application.config.database_url if application else Config.load().database_url)
    before, newest = schema.state(url)
    if check:
        click.echo(
            f"the database {'is at ' + before if before else 'has no schema'}; this version brings {newest}"
        )
        raise click.exceptions.Exit(1 if schema.is_behind(before) else 0)
    if schema.goes_down(before, to) and not yes:
        click.confirm(
            f"going from {before} down to {to} deletes all tables, with the tasks in them. Go on?", abort=True
        )
    stop_telling = events.subscribe(print_notice)
    schema.move(url, to=to)
    stop_telling()
    after, _ = schema.state(url)
    click.echo(schema.moved(before, after))
    if after is None:
        return
    with closing(connect.open_sync(connect.conninfo(url))) as connection:
        if application is not None:
            declare(connection, application.registry)
            click.echo(f"declared {len(application.registry)} task types")
        if after == newest and (came_from := compatibility.origins(connection)) is not None:
            # A warning only: an operator decides whose tasks these are, not a deployment.
            click.echo("warning: " + observe.printable(str(DatabaseRestored(came_from))), err=True)


def print_notice(event: events.Event) -> None:
    if isinstance(event, events.DatabaseNotice):
        click.echo("notice: " + observe.printable(event.message, keeping="\n"), err=True)
