"""`orchestrator demo`: show Orchestrator at work, on the demo's own server."""

from pathlib import Path

import click

from orchestrator import demo as playing


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".orchestrator/demo"),
    show_default=True,
    metavar="FOLDER",
    help="The folder of the demo's server; each run empties it.",
)
@click.option("--tasks", type=click.IntRange(1, 100_000), default=5000, show_default=True, help="Fast tasks.")
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Worker processes.")
def demo(data: Path, tasks: int, workers: int) -> None:
    """See it work: a server, workers, thousands of tasks.

    The demo takes about ten seconds and needs only pg-orchestrator[embedded]. It runs fast, slow, flaky, poisoned,
    delayed and keyed tasks. The table at the end is read from the database, which stays for you to query.
    Ctrl-C ends the demo at any moment, and leaves nothing running.
    """
    folder = data.expanduser().resolve()
    raise click.exceptions.Exit(playing.run(playing.Run(folder=folder, workers=workers, fast=tasks)))
