"""`orchestrator resume --after-restore`: let tasks run in a restored or cloned database."""

import sys

import click

from orchestrator import observe, operate
from orchestrator.cli.database import connected, database_option, reason_option
from orchestrator.postgres import connect


@click.command()
@click.option("--after-restore", is_flag=True, help="Resume in a restored dump or a cloned database.")
@reason_option
@database_option
@click.option("--yes", is_flag=True, help="Do not ask; required without a terminal.")
def resume(reason: str | None, url: str | None, *, after_restore: bool, yes: bool) -> None:
    """Let tasks run in a restored or cloned database.

    A restored dump or a cloned database runs no tasks, because the original may run the same tasks. This command gives
    back claimed and running tasks, declares the original's workers dead, and lets workers start. In a database that is
    not a copy it changes nothing.
    """
    if not after_restore:
        raise click.UsageError("say after what: --after-restore")
    with connected(url, "resume", writes=True) as connection:
        here = connect.describe(connection.info.dsn)
        copy = operate.copied(connection)
        if copy is None:
            click.echo(
                f"nothing to do: the tasks in {here} are at home there, and may run. A copy made file by file cannot "
                "be distinguished from its original: there, run SELECT orchestrator.hold_after_restore() first"
            )
            return
        click.echo(observe.printable("\n".join(described(copy, here)), keeping="\n"))
        if not yes:
            confirm()
        done = operate.resume_after_restore(connection, reason=reason)
    click.echo(
        f"resumed: {done.claimed} claimed and {done.running} running tasks were given back, "
        f"{done.workers} workers declared dead; workers may start"
    )


def described(copy: operate.Copy, here: str) -> list[str]:
    """Return lines that say what resuming will do."""
    return [
        f"The tasks in {here} are a copy: {copy.origins}.",
        "To resume will",
        f"  give back {copy.claimed} claimed tasks, no attempt counted",
        f"  give back {copy.running} running tasks, which run again; how they ended in the original is not known here",
        f"  declare {copy.workers} workers dead"
        + (f", the leader among them ({copy.leader})" if copy.leader else ""),
        f"  let workers run these, {copy.pending} pending tasks, and {copy.scheduled} scheduled ones when they are due",
        "Make sure first that no worker runs the same tasks in the original.",
    ]


def confirm() -> None:
    """Ask at a terminal; without one, raise UsageError."""
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask at; add --yes")
    click.confirm("Resume?", abort=True)
