"""Every flag has a variable: that of `tasks list --status` is ORCHESTRATOR_TASKS_LIST_STATUS. A slip is told.

click reads the variables (`auto_envvar_prefix`), each when its command runs, and none that no flag is called by. So a
slip would be silence; it is looked for here, as `Config.load` looks among the settings.
"""

from collections.abc import Mapping

import click

from orchestrator.config import PREFIX, did_you_mean
from orchestrator.errors import ConfigError


def refuse_slips(whole: click.Group, environment: Mapping[str, str]) -> None:
    """Raise what was probably meant by the variables that belong to a command and to no flag of it."""
    faults = [
        f"{name} is not a flag's variable; did you mean {close}?"
        for name in sorted(environment)
        if name.startswith(PREFIX) and (close := meant(whole, name, PREFIX)) is not None
    ]
    if faults:
        raise ConfigError("; ".join(faults))


def meant(command: click.Command, name: str, prefix: str) -> str | None:
    """Return the variable that was probably meant; None where the name is right, or like none."""
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            below = f"{prefix}{word.upper().replace('-', '_')}_"
            if name.startswith(below):
                return meant(inner, name, below)
        return None
    # The flag alone is compared: what stands before it is equal, and would make anything look alike.
    flags = {option.name.upper() for option in command.params if option.name}
    close = did_you_mean(name.removeprefix(prefix), flags)
    return None if close is None or prefix + close == name else prefix + close
