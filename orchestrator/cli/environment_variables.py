"""Every flag has a variable: that of `tasks list --status` is ORCHESTRATOR_TASKS_LIST_STATUS. A slip is told.

They are named here, by the flag as one types it; click's own `auto_envvar_prefix` would name them by our parameters
(--json is `as_json` there). And it reads only what some flag is called by, so that a slip would be silence: it is
looked for here, as `Config.load` looks among the settings.
"""

from collections.abc import Iterator, Mapping

import click

from orchestrator.config import PREFIX, did_you_mean, is_of_kubernetes
from orchestrator.errors import ConfigError


def name_variables(command: click.Command, prefix: str) -> None:
    """Give every flag of this command, and of those below it, its variable; one that it has already comes second."""
    for option in flags(command):
        given = [option.envvar] if isinstance(option.envvar, str) else list(option.envvar or ())
        option.envvar = [prefix + variable_of(option), *given]
    if isinstance(command, click.Group):
        for word, inner in command.commands.items():
            name_variables(inner, below(prefix, word))


def refuse_slips(whole: click.Group, environment: Mapping[str, str]) -> None:
    """Raise what was probably meant by the variables that belong to a command and to no flag of it."""
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
    """Return the variable that was probably meant; None where the name is right, or like none."""
    if isinstance(command, click.Group):
        for word in command.commands:
            if name.startswith(below(prefix, word)):
                return meant(command.commands[word], name, below(prefix, word))
        return None
    # The flag alone is compared: what stands before it is equal, and would make anything look alike.
    close = did_you_mean(name.removeprefix(prefix), map(variable_of, flags(command)))
    return None if close is None or prefix + close == name else prefix + close


def flags(command: click.Command) -> Iterator[click.Option]:
    """Yield the options that a person may give, and a deployment may want to."""
    for option in command.params:
        # --version: so is called what a deployment says which version it wants.
        if isinstance(option, click.Option) and option.allow_from_autoenv:
            yield option


def variable_of(option: click.Option) -> str:
    return screaming(max(option.opts, key=len).lstrip("-"))


def below(prefix: str, word: str) -> str:
    return f"{prefix}{screaming(word)}_"


def screaming(words: str) -> str:
    return words.replace("-", "_").upper()
