"""The flags that select tasks, the same for every command below `tasks`. They are checked before the connection."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import click
import psycopg

from orchestrator.cli.database import Command
from orchestrator.operate import Search, filters, find

WORDS = "[ID | payload.PATH=VALUE]..."
OPTIONS = (
    click.argument("words", nargs=-1, metavar=WORDS),
    click.option(
        "-s",
        "--status",
        multiple=True,
        help="scheduled, pending, dead_letter, …; separate several by commas.",
    ),
    click.option("-q", "--queue", multiple=True, help="In this queue; * matches any text."),
    click.option("-t", "--type", "kind", multiple=True, help="Of this type, for example 'mail.*'."),
    click.option("--tag", multiple=True, help="With this tag. Given twice: with both tags."),
    click.option("--key", multiple=True, help="With this idempotency key."),
    click.option("--error-class", multiple=True, help="With a last error of this class."),
    click.option("--error", metavar="TEXT", help="With this text in the last error's message."),
    click.option(
        "--worker", metavar="ID|HOST", help="Last held by this worker; the beginning of an id is enough."
    ),
    click.option(
        "--older-than", metavar="AGE", help="Ended, or else created, before: 2h, 7d, 2026-11-18T02:30Z."
    ),
    click.option("--newer-than", metavar="AGE", help="Ended, or else created, since."),
)


@dataclass(frozen=True, slots=True)
class Asked:
    """The search that the flags describe. The database turns ages into moments."""

    search: Search
    older_than: str | None
    newer_than: str | None

    @classmethod
    def of_ids(cls, ids: tuple[int, ...]) -> "Asked":
        """Return a search for these ids without other conditions."""
        return cls(Search(ids=ids), None, None)

    @property
    def is_everything(self) -> bool:
        return self.search.is_everything and self.older_than is None and self.newer_than is None

    def at(self, connection: psycopg.Connection[Any], search: Search | None = None) -> Search:
        """Return the search, or another one, with these ages as moments."""
        return replace(
            search or self.search,
            before=find.age(connection, self.older_than),
            since=find.age(connection, self.newer_than),
        )


def filter_options(command: Command) -> Command:
    """Give a command the flags. They are passed as keywords for `asked`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def asked(given: Mapping[str, Any]) -> Asked:
    """Read the flags. A wrong value ends the command with a message that says what to type."""
    with typed():
        filters.check_age(given["older_than"])
        filters.check_age(given["newer_than"])
        conditions = [word for word in given["words"] if word.startswith("payload.") or "=" in word]
        ids = tuple(filters.task_id(word) for word in given["words"] if word not in conditions)
        search = Search(
            ids=ids,
            statuses=tuple(filters.status(word) for text in given["status"] for word in text.split(",")),
            queues=texts(given["queue"]),
            types=texts(given["kind"]),
            tags=texts(given["tag"]),
            keys=texts(given["key"]),
            error_classes=texts(given["error_class"]),
            error_text=text(given["error"]),
            payload=tuple(filters.condition(word) for word in conditions),
            worker=text(given["worker"]),
        )
    return Asked(search, given["older_than"], given["newer_than"])


@contextmanager
def typed() -> Iterator[None]:
    """Turn a ValueError into a usage error."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def texts(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filters.known(each) for each in given)


def text(given: str | None) -> str | None:
    return None if given is None else filters.known(given)
