"""Which orders the nursery takes; the others are for a fresh interpreter."""

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).with_name("orchestrator")
MODULES = ("orchestrator",)
# Read when the interpreter starts, or when a module that we have is loaded; or not by Python at all, but by the loader.
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "GLIBC_", "MALLOC_", "FAKETIME", "PROMETHEUS_")
# These two a child sees to itself.
HONOURED = ("PYTHONPATH", "PYTHONUNBUFFERED")
# Children forget them, and load their own.
FORGOTTEN = "tests"


def unfit(order: Mapping[str, Any], born_with: Mapping[str, str]) -> str | None:
    """Return why only a fresh interpreter will do, or nothing."""
    if order["wishes"]:
        return f"it asks for {', '.join(order['wishes'])}"
    if program(order["args"]) is None:
        return "it is not a program of ours"
    for name in born_with.keys() | order["env"].keys():
        decides = name.startswith(READ_AT_START) and name not in HONOURED
        if decides and born_with.get(name) != order["env"].get(name):
            return f"{name} is another"
    for path in searched(order):
        hidden = names_in(path) & loaded()
        if hidden:
            return f"{path} has its own {', '.join(sorted(hidden))}"
    return None


def program(args: list[str]) -> tuple[str, str] | None:
    """Return how Python is to run which program, or nothing."""
    match args:
        case [sys.executable, "-m", module, *_] if module in MODULES:
            return "-m", module
        case [sys.executable, "-c", code, *_]:
            return "-c", code
        case [sys.executable, file, *_] if not file.startswith("-"):
            return "file", file
        case [script, *_] if script == str(SCRIPT):
            return "file", script
        case _:
            return None


def searched(order: Mapping[str, Any]) -> list[Path]:
    """Return the folders in which it would look for modules before it looks where ours come from."""
    how, what = program(order["args"]) or ("", "")
    first = Path(order["cwd"], what).parent if how == "file" else Path(order["cwd"])
    more = [Path(order["cwd"], each) for each in order["env"].get("PYTHONPATH", "").split(":") if each]
    ours = (REPOSITORY, SCRIPT.parent)
    return [path for path in (first, *more) if path not in ours]


def names_in(path: Path) -> set[str]:
    """Return what could be imported from a folder. One without `__init__.py` hides nothing."""
    with suppress(OSError):
        files = {each.name.partition(".")[0] for each in path.iterdir() if each.suffix in (".py", ".so")}
        return files | {each.parent.name for each in path.glob("*/__init__.py")}
    return set()


def loaded() -> set[str]:
    """Return the names of the packages that are loaded; what is built in nobody can hide."""
    names = {name.partition(".")[0] for name in sys.modules}
    return names - {FORGOTTEN, "__main__", *sys.builtin_module_names}
