"""`orchestrator enqueue TYPE JSON`: enqueue a task manually, with the checks of enqueue in Python."""

from collections.abc import Callable
from typing import Any

import click
import psycopg

from orchestrator import enqueue as enqueueing
from orchestrator.cli.database import Command, connected, database_option, json_option
from orchestrator.cli.parameters import json_object, span, time
from orchestrator.cli.table import print_json
from orchestrator.config import Config
from orchestrator.enqueue import Options
from orchestrator.observe import printable
from orchestrator.task.columns import OPTIONS, Kind, Option

READERS: dict[Kind, Callable[[str], Any]] = {"moment": time, "span": span, "document": json_object}
EXAMPLES: dict[Kind, str] = {"moment": " (2026-01-31T08:00Z)", "span": " (90s, 5m, 1h30m, 2d)"}


def task_options(command: Command) -> Command:
    """Give the command a flag for each option of a task."""
    for option in reversed(OPTIONS):
        command = flag(option)(command)
    return command


def flag(option: Option) -> Callable[[Command], Command]:
    name = option.name.replace("_", "-")
    meaning = f"{option.meaning[0].upper()}{option.meaning[1:]}"
    if option.kind == "texts":
        return click.option(
            f"--{name.removesuffix('s')}",
            option.name,
            multiple=True,
            help=f"{meaning}. May be given more than once.",
        )
    return click.option(
        *(["-q"] if name == "queue" else []),
        f"--{name}",
        option.name,
        type=(number_or_word if option.words else click.IntRange(option.least, option.most))
        if option.kind == "integer"
        else READERS.get(option.kind),
        help=f"{meaning}{EXAMPLES.get(option.kind, '')}.",
    )


def number_or_word(text: str) -> int | str:
    """Read a number. Return a word as it is: `enqueue.request` checks it."""
    return int(text) if text.lstrip("-").isdecimal() else text


@click.command()
@click.argument("kind", metavar="TYPE")
@click.argument("payload", metavar="[JSON]", type=json_object, default="{}")
@task_options
@database_option
@json_option
def enqueue(kind: str, payload: dict[str, Any], url: str | None, *, as_json: bool, **given: Any) -> None:
    """Enqueue a task of this TYPE, with this JSON object as its payload.

    JSON holds the handler's arguments by name: '{"user_id": 1}'. The default is {}; `-` reads standard input. The
    command prints the task's id.
    """
    if given["delay"] is not None and given["run_at"] is not None:
        raise click.UsageError("--delay and --run-at name two moments; give one of them")
    options = Options(**{name: None if value == () else value for name, value in given.items()})
    config = Config.load()
    asked = enqueueing.request(kind, payload, options, bytes_max=config.payload_bytes_max)
    with connected(url or config.database_url, "enqueue", writes=True, checks=False) as connection:
        connection.add_notice_handler(print_notice)
        done = enqueueing.send(enqueueing.synchronous(connection), asked)
    if as_json:
        print_json(done)
        return
    click.echo(done.id)
    if not done.created:
        click.echo("nothing was enqueued: the task of this id has the key", err=True)


def print_notice(notice: psycopg.errors.Diagnostic) -> None:
    """Print a notice of the database, for example that no worker has declared the type."""
    text = ". ".join(filter(None, (notice.message_primary, notice.message_hint)))
    click.echo("notice: " + printable(text), err=True)
