"""Every flag has a variable: `tasks list --status` has ORCHESTRATOR_TASKS_LIST_STATUS. A misspelt variable is an error.

This module names the variables after the flags as they are typed. click's `auto_envvar_prefix` would name them after
our parameters (--json is `as_json` there). click also ignores a variable that belongs to no flag, so a misspelling
would have no effect and no message. This module finds it, as `Config.load` does for the settings.
"""

from collections.abc import Iterator, Mapping

import click

from orchestrator.config import PREFIX, did_you_mean, is_of_kubernetes
from orchestrator.errors import ConfigError


def name_variables(command: click.Command, prefix: str) -> None:
    """Give every flag of this command and of its subcommands a variable. A variable that the flag already has comes
    second."""
    for option in flags(command):
        given = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        option.envvar = [prefix + variable_of(option), *given]
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            name_variables(inner, below(prefix, word))


def refuse_slips(whole: click.Group, environment: Mapping[str, str]) -> None:
    """Raise ConfigError for variables that name a command and none of its flags, with the names probably meant."""
    faults = [
        f"{name} is not a flag's variable; did you mean {close}?"
        for name, text in sorted(environment.items())
        if name.startswith(PREFIX)
        and not is_of_kubernetes(name, text)
        and (close := meant(whole, name, PREFIX)) is not None
    ]
    if faults:
        raise ConfigError("; ".join(faults))


def meant(command: click.Command, name: str, prefix: str) -> str | None:
    """Return the variable that was probably meant; None if the name is right, or resembles none."""
    if isinstance(command, click.Group):
        for word in command.commands:
            if name.startswith(below(prefix, word)):
                return meant(command.commands[word], name, below(prefix, word))
        return None
    # Only the flag is compared: the equal prefix would make all names look alike.
    close = did_you_mean(name.removeprefix(prefix), map(variable_of, flags(command)))
    return None if close is None or prefix + close == name else prefix + close


def flags(command: click.Command) -> Iterator[click.Option]:
    """Yield the options that may be set by a variable."""
    for option in command.params:
        # Not --version: deployments use ORCHESTRATOR_VERSION for the version to install.
        if isinstance(option, click.Option) and option.allow_from_autoenv:
            yield option


def variable_of(option: click.Option) -> str:
    return screaming(max(option.opts, key=len).lstrip("-"))


def below(prefix: str, word: str) -> str:
    return f"{prefix}{screaming(word)}_"


def screaming(words: str) -> str:
    return words.replace("-", "_").upper()
