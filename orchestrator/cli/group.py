"""What all commands share: an unknown command gets a suggestion, and a closed pipe is no error.

`orchestrator tasks list | head -1` closes our standard output. As in other Unix tools that is no error: the command
prints nothing more, and its status is that of a process that SIGPIPE has ended.
"""

import difflib
import sys
from collections.abc import Iterator
from typing import Any

import click

from orchestrator.cli.error_messages import write_nowhere
from orchestrator.task.duration import shown

BROKEN_PIPE_CODE = 141


class Commands(click.Group):
    """A group that suggests a command for an unknown name, at any depth."""

    # Groups that are made below this one (`@tasks.group()`) have this class too.
    group_class = type

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the named command. click's own suggestion covers only the same group, and exists only since 8.4."""
        if self.get_command(context, words[0]) is None and not words[0].startswith("-"):
            message = f"No such command {shown(words[0])}."
            if meant := self.meant(words[0]):
                message += f" Did you mean {' or '.join(f'{context.command_path} {path}' for path in meant)}?"
            raise click.UsageError(message, context)
        return super().resolve_command(context, words)

    def meant(self, name: str) -> list[str]:
        """Return the commands that may have been meant: similar names in this group, else equal names below it."""
        here = difflib.get_close_matches(name, self.commands, n=2)
        return here or [path for path, _ in walked(self) if path.split()[-1] == name][:3]


class CommandLine(Commands):
    """The root group of all commands."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command. If the reader of its output has gone, end without a message."""
        try:
            result = super().invoke(context)
            # An error of writing must come up here: at the interpreter's exit it could not be reported in a sentence.
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            write_nowhere()
            raise click.exceptions.Exit(BROKEN_PIPE_CODE) from None


def walked(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command and group below a group, with its path."""
    for name, command in sorted(group.commands.items()):
        yield above + name, command
        if isinstance(command, click.Group):
            yield from walked(command, f"{above}{name} ")
