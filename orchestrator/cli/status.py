"""`orchestrator status`: queues, workers and leader on one screen, once or live."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import click
import psycopg
from rich.live import Live

from orchestrator.cli import table
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.error_messages import worded
from orchestrator.cli.signals import sigterm_as_interrupt
from orchestrator.cli.status_screen import Overview, Trends
from orchestrator.errors import DatabaseUnavailable
from orchestrator.operate.status import status as look
from orchestrator.postgres import connect
from orchestrator.version import __version__

REDRAWN_PER_SECOND = 4


@click.command()
@database_option
@json_option
@click.option("-w", "--watch", is_flag=True, help="Update the screen until Ctrl-C.")
@click.option(
    "--every", type=click.FloatRange(0.2, 3600), default=2.0, show_default=True, metavar="SECONDS",
    help="The interval of --watch.",
)  # fmt: skip
@click.option("--exact", is_flag=True, help="Count every task, even if that is slow.")
def status(url: str | None, every: float, *, as_json: bool, watch: bool, exact: bool) -> None:
    """Show queues, workers, the leader, and what needs attention.

    With many tasks the queues' figures are from the leader's last count, and the screen shows their age. With --json
    and --watch each line is one JSON document.
    """
    if watch and not as_json and not sys.stdout.isatty():
        raise click.UsageError(
            "--watch draws on a terminal, and there is none; add --json for one line a look"
        )
    if watch:
        follow(url, every, as_json=as_json, exact=exact)
        return
    with connected(url, "status") as connection:
        found, title = look(connection, exact=exact), titled(connection)
    if as_json:
        table.print_json(found)
    else:
        table.show(Overview(found, title))


def follow(url: str | None, every: float, *, as_json: bool, exact: bool) -> None:
    """Look at each interval until interrupted. While the database is away, wait for it."""
    # Ctrl-C, SIGTERM and SIGHUP end the loop here, so that the screen is restored.
    with suppress(KeyboardInterrupt), sigterm_as_interrupt():
        if as_json:
            for each in looks(url, every, exact=exact):
                click.echo(json.dumps(table.plain(each.status)))
            return
        last: Overview | None = None
        try:
            with Live(console=table.screen(), screen=True, refresh_per_second=REDRAWN_PER_SECOND) as live:
                for last in looks(url, every, exact=exact):
                    live.update(last, refresh=True)
        finally:
            # The live screen is erased at the end. Print its last state, so that it can still be read.
            if last is not None:
                table.show(Overview(last.status, last.title))


def looks(url: str | None, every: float, *, exact: bool) -> Iterator[Overview]:
    """Yield a look at each interval. While the database is away, yield the last one with the error. Ends: never."""
    last: Overview | None = None
    trends = Trends()
    while True:
        try:
            with connected(url, "status") as connection:
                while True:
                    found = look(connection, exact=exact)
                    trends.note(found)
                    last = Overview(found, titled(connection), trends)
                    yield last
                    time.sleep(every)
        except (DatabaseUnavailable, psycopg.OperationalError) as error:
            if last is None:
                raise
            text = worded(error) if isinstance(error, psycopg.Error) else str(error)
            yield Overview(last.status, last.title, trends, trouble=f"{text.splitlines()[0]} (trying again)")
            time.sleep(every)


def titled(connection: psycopg.Connection) -> str:
    return f"{connect.describe(connection.info.dsn)}  orchestrator {__version__}"
