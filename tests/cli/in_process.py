"""Run a command inside the tests' own process, which is ten times faster than a process for each.

It calls `main` with the arguments, the environment and the streams that a process would have.
"""

import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

import click
from click import formatting
from click.testing import CliRunner

from orchestrator import cli
from orchestrator.cli.group import walked
from orchestrator.processes import exit_codes, watchdog
from tests import observers

UNKNOWN_ID = "999999999"
NOTHING = click.Command("nothing")


@dataclass(frozen=True)
class Ran:
    """The status and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def output(self) -> str:
        return self.out + self.err


def run(*words: str, url: str | None = None, width: int | None = None, given: str = "", **more: str) -> Ran:
    """Run `orchestrator WORDS`; with a width at a terminal with this many columns, else in a pipe."""
    env = surroundings(url, width, more)
    with (
        observers.restored(),
        signals_restored(),
        CliRunner().isolation(given, env) as (out, err, _),
        mock.patch.object(sys, "argv", ["orchestrator", *words]),
        mock.patch.object(formatting, "FORCED_WIDTH", None),
        # The watchdog of a worker that fails ends its process later, which here is that of the tests.
        mock.patch.object(watchdog, "END_SECONDS", math.inf),
        mock.patch.object(sys.stdout, "isatty", return_value=width is not None),
    ):
        code = ended()
    return Ran(code, out.getvalue().decode(), err.getvalue().decode())


@contextmanager
def signals_restored() -> Iterator[None]:
    """Restore the handlers of the stop signals after the block. A worker keeps its own until its process ends."""
    before = {number: signal.getsignal(number) for number in exit_codes.STOPPING}
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


def ended() -> int:
    """Call main, which exits, and return its exit status."""
    try:
        cli.main()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    raise AssertionError("main() came back")


def surroundings(url: str | None, width: int | None, more: dict[str, str]) -> dict[str, str | None]:
    """Return the variables to set; None: remove the variable."""
    env: dict[str, str | None] = {
        name: None
        for name in [*os.environ, "COLUMNS", "NO_COLOR", "FORCE_COLOR"]
        if name.startswith("ORCHESTRATOR_") or name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")
    }
    if url is not None:
        env["ORCHESTRATOR_DATABASE_URL"] = url
    if width is not None:
        env |= {"COLUMNS": str(width), "LINES": "24"}
    return env | {"TERM": "xterm"} | more


def leaves() -> list[tuple[str, click.Command]]:
    """Return every command that is no group, by its words."""
    found = walked(cli.orchestrator)
    return [
        (words, command)
        for words, command in found
        if not isinstance(command, click.Group) or command.invoke_without_command
    ]


def words_for(words: str, command: click.Command, given: dict[str, str]) -> list[str]:
    """Return a command line that click accepts: the words for this command, or a value for each argument."""
    if words in given:
        return [*words.split(), *given[words].split()]
    arguments = [each for each in command.params if isinstance(each, click.Argument) and each.required]
    return [
        *words.split(),
        *(UNKNOWN_ID if names_task(each) else "nothing-of-this-name" for each in arguments),
    ]


def names_task(argument: click.Parameter) -> bool:
    """Return whether an argument is a task's id, which is a number."""
    return (
        isinstance(argument, click.Argument)
        and argument.make_metavar(click.Context(NOTHING)).strip("[]") == "ID"
    )
