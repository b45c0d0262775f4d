"""Find the application that the command line names as MODULE:NAME."""

import difflib
import importlib
import os
import sys

import click

from orchestrator.app import Orchestrator
from orchestrator.task.duration import shown


def load_app(spec: str) -> Orchestrator:
    """Import MODULE and return its NAME (default `app`). The current folder is on the path, as with python -m."""
    module_name, _, name = spec.partition(":")
    name = name or "app"
    if "/" in module_name or module_name.endswith(".py"):
        raise not_a_name(spec)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and module_name.split(".")[0] == error.name.split(".")[0]:
            advice = "run this in the folder that holds it, or set PYTHONPATH"
            if module_name.endswith(".py"):
                advice = f"did you mean {module_name.removesuffix('.py').replace('/', '.')}:{name}?"
            raise click.UsageError(f"there is no module {shown(error.name)}; {advice}") from None
        raise click.ClickException(
            f"{module_name} cannot be imported: it needs {shown(error.name)}"
        ) from None
    except (ValueError, TypeError):
        raise not_a_name(spec) from None
    found = getattr(module, name, None)
    if not isinstance(found, Orchestrator):
        apps = sorted(key for key, value in vars(module).items() if isinstance(value, Orchestrator))
        close = difflib.get_close_matches(name, apps, n=1, cutoff=0) or apps
        advice = f"; did you mean {module_name}:{close[0]}?" if close else ""
        what = "has no" if found is None else "has something else as"
        raise click.UsageError(
            f"{module_name} {what} {shown(name)}, where an Orchestrator was expected{advice}"
        )
    return found


def not_a_name(spec: str) -> click.UsageError:
    return click.UsageError(
        f"{shown(spec)} does not name an application; write MODULE:APP, as in shop.jobs:app"
    )
