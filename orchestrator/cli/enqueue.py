"""`orchestrator enqueue TYPE JSON`: a task by hand, checked as Python's own enqueue checks it."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click
import psycopg

from orchestrator import enqueue as enqueueing
from orchestrator.cli.database import connected, database_option, json_option
from orchestrator.cli.parameters import json_object, span, time
from orchestrator.cli.table import print_json
from orchestrator.config import Config
from orchestrator.enqueue import Options
from orchestrator.observe import printable


@click.command()
@click.argument("kind", metavar="TYPE")
@click.argument("payload", metavar="[JSON]", type=json_object, default="{}")
@click.option("-q", "--queue", help="Else the one that the type is declared with.")
@click.option("--priority", help="0 to 100, or low, normal, high, critical.")
@click.option("--delay", type=span, help="Not before so long from now: 90s, 5m, 1h30m, 2d.")
@click.option("--run-at", type=time, help="Not before then: 2026-01-31T08:00Z.")
@click.option("--key", help="Once, while a task of this type has the same key.")
@click.option("--key-window", type=span, help="How long the key counts.  [default: 1d]")
@click.option("--max-attempts", type=click.IntRange(1, 32_767), help="Executions, in all.")
@click.option("--timeout", type=span, help="What an attempt may take.")
@click.option("--tag", "tags", multiple=True, help="May be given more than once.")
@database_option
@json_option
def enqueue(
    kind: str,
    payload: dict[str, Any],
    url: str | None,
    priority: str | None,
    tags: Sequence[str],
    *,
    as_json: bool,
    queue: str | None,
    delay: timedelta | None,
    run_at: datetime | None,
    **given: Any,
) -> None:
    """Enqueue a task of this TYPE, with this JSON object as its payload.

    JSON is what the handler takes, by name: '{"user_id": 1}'. `-` reads it from standard input; left out, it is {}.
    Prints the task's id.
    """
    if delay is not None and run_at is not None:
        raise click.UsageError("--delay and --run-at name two moments; give one of them")
    options = Options(
        queue=queue, priority=number_or_name(priority), delay=delay, run_at=run_at, tags=tags or None, **given
    )
    config = Config.load()
    asked = enqueueing.request(kind, payload, options, bytes_max=config.payload_bytes_max)
    with connected(url or config.database_url, "enqueue", writes=True, checks=False) as connection:
        connection.add_notice_handler(tell)
        done = enqueueing.send(enqueueing.synchronous(connection), asked)
    if as_json:
        print_json(done)
        return
    click.echo(done.id)
    if not done.created:
        click.echo("nothing was enqueued: the task of this id has the key", err=True)


def tell(notice: psycopg.errors.Diagnostic) -> None:
    """Pass on what the database remarks: that nobody has declared the type, for example."""
    said = ". ".join(filter(None, (notice.message_primary, notice.message_hint)))
    click.echo("notice: " + printable(said), err=True)


def number_or_name(priority: str | None) -> int | str | None:
    if priority is None or not priority.lstrip("-").isdecimal():
        return priority
    return int(priority)
