"""`orchestrator demo`: see it work, on a server of its own."""

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
    help="The folder of the demo's own server; emptied at each run.",
)
@click.option("--tasks", type=click.IntRange(1, 100_000), default=5000, show_default=True, help="Fast tasks.")
@click.option("--workers", type=click.IntRange(1, 16), default=2, show_default=True, help="Worker processes.")
def demo(data: Path, tasks: int, workers: int) -> None:
    """See it work: a server, workers, thousands of tasks.

    Takes about ten seconds and needs pg-orchestrator[embedded], nothing else. There are fast, slow, flaky, poisoned,
    delayed and keyed tasks; the table at the end is read from the database, which can be looked at afterwards.
    Ctrl-C ends it at any moment, and leaves nothing running.
    """
    folder = data.expanduser().resolve()
    raise click.exceptions.Exit(playing.run(playing.Run(folder=folder, workers=workers, fast=tasks)))
