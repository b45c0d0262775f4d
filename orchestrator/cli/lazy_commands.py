"""The commands by name. Each is imported on first use.

To import all of them takes as long as most of them run: the bench, Alembic, the terminal library.
"""

from collections.abc import Iterable, Iterator, MutableMapping
from importlib import import_module

import click

from orchestrator.cli.environment_variables import below, name_variables
from orchestrator.config import PREFIX


class LazyCommands(MutableMapping[str, click.Command]):
    """The commands of a click group: `word` is the object `word` in the module `orchestrator.cli.word`."""

    def __init__(self, words: Iterable[str]) -> None:
        self._commands: dict[str, click.Command | None] = dict.fromkeys(sorted(words))

    def __getitem__(self, word: str) -> click.Command:
        command = self._commands[word]
        if command is None:
            command = self._commands[word] = getattr(import_module(f"orchestrator.cli.{word}"), word)
            name_variables(command, below(PREFIX, word))
        return command

    def __setitem__(self, word: str, command: click.Command) -> None:
        self._commands[word] = command

    def __delitem__(self, word: str) -> None:
        del self._commands[word]

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)
