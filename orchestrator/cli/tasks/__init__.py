"""`orchestrator tasks`: find tasks, show one, and change one or a million."""

import click

from orchestrator.cli.group import Commands
from orchestrator.cli.tasks.actions import cancel, delete, priority, requeue
from orchestrator.cli.tasks.export import export
from orchestrator.cli.tasks.listing import listing
from orchestrator.cli.tasks.show import show


@click.group(cls=Commands)
def tasks() -> None:
    """List, show, requeue, cancel or delete tasks.

    \b
      orchestrator tasks list --status dead_letter --newer-than 2h
      orchestrator tasks list payload.user_id=42
      orchestrator tasks show 4711
      orchestrator tasks requeue 4711 4712
      orchestrator tasks requeue --type 'mail.*' --error-class TimeoutError
    """


for command in (listing, show, requeue, cancel, delete, priority, export):
    tasks.add_command(command)
