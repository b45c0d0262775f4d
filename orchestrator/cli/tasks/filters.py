"""The flags that say which tasks, the same for every command below `tasks`; read before there is a connection."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import psycopg

from orchestrator.operate import Search, filters, find

WORDS = "[ID | payload.PATH=VALUE]..."
OPTIONS = (
    click.argument("words", nargs=-1, metavar=WORDS),
    click.option(
        "-s", "--status", multiple=True, help="scheduled, pending, dead_letter, …; several by commas."
    ),
    click.option("-q", "--queue", multiple=True, help="In this queue; * stands for any text."),
    click.option("-t", "--type", "kind", multiple=True, help="Of this type, for example 'mail.*'."),
    click.option("--tag", multiple=True, help="With this tag; given twice, with both."),
    click.option("--key", multiple=True, help="With this idempotency key."),
    click.option("--error-class", multiple=True, help="Whose last error is of this class."),
    click.option("--error", metavar="TEXT", help="Whose last error's message contains this."),
    click.option(
        "--worker", metavar="ID|HOST", help="Last held by this worker; the beginning of an id will do."
    ),
    click.option(
        "--older-than", metavar="AGE", help="Ended (else created) before: 2h, 7d, 2026-11-18T02:30Z."
    ),
    click.option("--newer-than", metavar="AGE", help="Ended (else created) since."),
)

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for; ages are the database's to tell."""

    search: Search
    older_than: str | None
    newer_than: str | None

    @classmethod
    def of_ids(cls, ids: tuple[int, ...]) -> "Asked":
        """Return what asks for these tasks, and for nothing else of them."""
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
    """Give a command the flags; they come as keywords for `asked`."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def asked(given: Mapping[str, Any]) -> Asked:
    """Read what the flags say; a wrong word ends the command, and says what to type instead."""
    with typed():
        for age in (given["older_than"], given["newer_than"]):
            if age is not None:
                filters.moment(age, now=datetime.now(UTC))
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
    """Take what cannot be read for a wrong command line."""
    try:
        yield
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def texts(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filters.known(each) for each in given)


def text(given: str | None) -> str | None:
    return None if given is None else filters.known(given)
