"""What all commands have in common: a slip is told from what was meant, and a reader who has gone is no fault.

`orchestrator tasks list | head -1` closes the pipe under us. As with every other tool of Unix that is an end and no
error: nothing is said, and the status is that of a process that SIGPIPE has ended.
"""

import difflib
import sys
from collections.abc import Iterator
from typing import Any

import click

from orchestrator.cli.error_messages import write_nowhere
from orchestrator.task.duration import shown

NOBODY_READS_CODE = 141


class Commands(click.Group):
    """A group that answers an unknown name with the one that was probably meant, wherever that is."""

    # What a group is asked for below it (`@tasks.group()`) is of this kind as well.
    group_class = type

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is named; not click's, which looks among its neighbours only, and that since 8.4."""
        if self.get_command(context, words[0]) is None and not words[0].startswith("-"):
            message = f"No such command {shown(words[0])}."
            if meant := self.meant(words[0]):
                message += f" Did you mean {' or '.join(f'{context.command_path} {path}' for path in meant)}?"
            raise click.UsageError(message, context)
        return super().resolve_command(context, words)

    def meant(self, name: str) -> list[str]:
        """Return the commands that may have been meant: those with a name like this here, else those below."""
        here = difflib.get_close_matches(name, self.commands, n=2)
        return here or [path for path, _ in walked(self) if path.split()[-1] == name][:3]


class CommandLine(Commands):
    """The whole: the group that everything is below."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command, and end quietly where nobody reads what it prints."""
        try:
            result = super().invoke(context)
            # At the end of the interpreter it would be too late to say in a sentence that it cannot be written.
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            write_nowhere()
            raise click.exceptions.Exit(NOBODY_READS_CODE) from None


def walked(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group with the words that name it, groups as well."""
    for name, command in sorted(group.commands.items()):
        yield above + name, command
        if isinstance(command, click.Group):
            yield from walked(command, f"{above}{name} ")
