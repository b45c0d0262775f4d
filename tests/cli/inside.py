"""Run a command inside the tests' own process: a thousand runs where a process each would be a hundred.

It is `main` that runs, with the arguments, the environment and the streams that a process would have.
"""

import io
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import click

from orchestrator import cli
from orchestrator.cli.group import walked

UNKNOWN_ID = "999999999"
NOTHING = click.Command("nothing")


@dataclass(frozen=True)
class Ran:
    """How it ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def run(*words: str, url: str | None = None, width: int | None = None, given: str = "", **more: str) -> Ran:
    """Run `orchestrator WORDS`; with a width at a terminal of that many columns, else in a pipe."""
    out, err = (
        (Terminal if width else io.TextIOWrapper)(io.BytesIO(), encoding="utf-8"),
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8"),
    )
    with surroundings(words, url, width, more), streams(out, err, given):
        code = ended()
    return Ran(code, read(out), read(err))


def ended() -> int:
    """Call main, which ends by leaving the process, and return the code it leaves with."""
    try:
        cli.main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    raise AssertionError("main() came back")


@contextmanager
def surroundings(
    words: Sequence[str], url: str | None, width: int | None, more: dict[str, str]
) -> Iterator[None]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("ORCHESTRATOR_")}
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        kept.pop(name, None)
    kept |= {"TERM": "xterm", **more}
    if url is not None:
        kept["ORCHESTRATOR_DATABASE_URL"] = url
    if width is not None:
        kept |= {"COLUMNS": str(width), "LINES": "24"}
    with (
        mock.patch.dict(os.environ, kept, clear=True),
        mock.patch.object(sys, "argv", ["orchestrator", *words]),
    ):
        yield


@contextmanager
def streams(out: io.TextIOWrapper, err: io.TextIOWrapper, given: str) -> Iterator[None]:
    stdin = io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8")
    with (
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
        mock.patch.object(sys, "stdin", stdin),
    ):
        yield


def read(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def leaves() -> list[tuple[str, click.Command]]:
    """Return every command that does something, by its words."""
    found = walked(cli.orchestrator)
    return [
        (words, command)
        for words, command in found
        if not isinstance(command, click.Group) or command.invoke_without_command
    ]


def words_for(words: str, command: click.Command, given: dict[str, str]) -> list[str]:
    """Return a command line that click takes: what is said of this command, else something for each argument."""
    if words in given:
        return [*words.split(), *given[words].split()]
    arguments = [each for each in command.params if isinstance(each, click.Argument) and each.required]
    return [
        *words.split(),
        *(UNKNOWN_ID if names_task(each) else "nothing-of-this-name" for each in arguments),
    ]


def names_task(argument: click.Parameter) -> bool:
    """Tell whether an argument is a task's id, which is a number."""
    return (
        isinstance(argument, click.Argument)
        and argument.make_metavar(click.Context(NOTHING)).strip("[]") == "ID"
    )
