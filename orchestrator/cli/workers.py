"""`orchestrator workers …`: list the workers, and drain or stop some."""

import time
from collections.abc import Sequence
from typing import Any

import click
import psycopg

from orchestrator.cli import formats
from orchestrator.cli.database import connected, database_option, json_option, reason_option
from orchestrator.cli.group import Commands
from orchestrator.cli.table import Column, fields_of, table
from orchestrator.observe import printable
from orchestrator.operate import workers as operating
from orchestrator.operate.workers import Worker

WORKERS = (
    Column("name", "worker"),
    # Every command accepts the beginning of an id; --json shows the whole id.
    Column("id", shown=lambda worker_id: str(worker_id)[:8]),
    Column("version"),
    Column("state"),
    Column("slots", "busy", right=True),
    Column("beat_age", "last beat", right=True),
    Column("age", "up", right=True),
    Column("queues", folds=True),
)
LOOK_SECONDS = 0.25


@click.group(cls=Commands)
def workers() -> None:
    """List, drain or stop workers."""


@workers.command("list")
@database_option
@json_option
@click.option(
    "--all",
    "everyone",
    is_flag=True,
    help="Also workers that have stopped or died, while they are on record.",
)
def list_workers(url: str | None, *, as_json: bool, everyone: bool) -> None:
    """List the workers: where they run, what they hold, when they last beat."""
    with connected(url, "workers list") as connection:
        found = operating.workers(connection, everyone=everyone)
    rows: Sequence[Any] = found if as_json else [shown(each) for each in found]
    table(rows, WORKERS, as_json=as_json, empty="no worker runs; orchestrator worker MODULE:APP starts one")


@workers.command()
@click.argument("names", metavar="WORKER...", nargs=-1, required=True)
@database_option
@reason_option
def drain(names: Sequence[str], url: str | None, reason: str | None) -> None:
    """Let workers finish their running tasks, and end.

    They stop claiming. After their grace they give back unfinished tasks. WORKER is an id or its beginning, a pid,
    host:pid, or a host, which means all workers on it. `worker --processes` does not replace a drained worker.
    """
    with connected(url, "workers drain", writes=True) as connection:
        for each in chosen(connection, names):
            began = operating.drain(connection, each, reason=reason)
            click.echo(
                f"{described(each)} {'drains' if began else 'is ending already'}: it holds {tasks(each.holds)}"
            )


@workers.command()
@click.argument("names", metavar="WORKER...", nargs=-1, required=True)
@click.option(
    "--grace", type=click.FloatRange(min=0), default=10.0, show_default=True, metavar="SECONDS",
    help="How long to wait for running tasks.",
)  # fmt: skip
@database_option
@reason_option
def stop(names: Sequence[str], url: str | None, reason: str | None, grace: float) -> None:
    """End workers, and give the tasks they still hold to other workers.

    It begins like drain. After --grace it takes unfinished tasks from the workers. The tasks run elsewhere with fresh
    attempts, and outcomes that the old handlers still write are dropped. The command works through the database, and
    kills no process.
    """
    with connected(url, "workers stop", writes=True) as connection:
        ending = chosen(connection, names)
        for each in ending:
            if not each.live:
                continue
            operating.drain(connection, each, reason=reason)
            click.echo(f"{described(each)} drains: it holds {tasks(each.holds)}")
        deadline = time.monotonic() + grace
        for each in ending:
            if not each.live:
                # The worker is dead: there is no process to wait for.
                given_back = operating.stop(connection, each, reason=reason)
                click.echo(f"{described(each)} is gone: it had to give back {tasks(given_back)}")
                continue
            if ended(connection, each, deadline):
                click.echo(f"{described(each)} has ended")
                continue
            given_back = operating.stop(connection, each, reason=reason)
            click.echo(
                f"{described(each)} had to give back {tasks(given_back)}, and ends when its handlers let it"
            )


def chosen(connection: psycopg.Connection[Any], names: Sequence[str]) -> list[Worker]:
    """Return the workers of all names. A wrong name raises before any worker is changed."""
    found = operating.workers(connection)
    return list({each.id: each for name in names for each in operating.named(found, name)}.values())


def ended(connection: psycopg.Connection[Any], worker: Worker, deadline: float) -> bool:
    """Wait until the worker has ended, at most until the deadline. Return whether it has."""
    while operating.workers(connection, worker_id=worker.id):
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(LOOK_SECONDS, left))
    return True


def tasks(number: int) -> str:
    return "1 task" if number == 1 else f"{number:,} tasks"


def described(worker: Worker) -> str:
    return f"worker {printable(worker.name)}"


def shown(worker: Worker) -> dict[str, Any]:
    states = [worker.state, *(["leads"] if worker.leads else [])]
    if worker.state in ("running", "draining") and not worker.live:
        states.append("silent")
    return {
        **fields_of(worker),
        "name": worker.name,
        "state": ", ".join(states),
        "slots": f"{worker.busy}/{worker.capacity}",
        "beat_age": formats.span(worker.beat_age),
    }
