"""Our code never runs data, and each exception to the linters' security rules is narrow and has a reason.

The code uses no pickle and no eval, and imports no module that a row names. No rule of ruff's S or of bandit is off for
the whole product. The lock of the development environment has versions and hashes, but no sources of the packages.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.parsing import parsed

REPOSITORY = Path(__file__).parents[2]
LOCK = REPOSITORY / "requirements" / "dev.txt"
PRODUCT = ("orchestrator", "migrations", "examples", ".ci")

# Modules that can create code or objects from bytes.
READS_OBJECTS = {
    "pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "jsonpickle",
    "yaml",
    "joblib",
}
RUNS_TEXT = {"eval", "exec", "compile", "__import__", "execfile"}
# The modules that import a module by name, and the origin of that name.
IMPORTERS = {
    "orchestrator/cli/load_application.py": "the application that a command line names",
    "orchestrator/cli/lazy_commands.py": "our own commands, whose names are in the code",
    "orchestrator/execute/registry.py": "the function that the worker's own registry holds, in its child process",
    "orchestrator/observe/log_output.py": "structlog, if something is logged",
    "orchestrator/observe/tracing.py": "our own module that needs OpenTelemetry, if the application uses OpenTelemetry",
    "orchestrator/processes/loop.py": "uvloop, if it is installed",
}
IMPORTS_BY_NAME = {
    "import_module",
    "load_module",
    "exec_module",
    "find_loader",
    "resolve_name",
    "entry_points",
}

# The security rules that are off for some folders; SIM300, FBT and T20 are no security rules.
ALLOWED = {
    "tests/**": {"S101", "S603", "S607"},  # tests use assert, and start our own programs
    ".ci/**": {"S603", "S607"},
}
EXCEPTION = re.compile(r"#\s*(noqa|nosec)\b([^#]*)")
CODES = {
    "noqa": re.compile(r":\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*"),
    "nosec": re.compile(r"\s+B\d+(?:,\s*B\d+)*\s"),
}
SECURITY = re.compile(r"\bS\d{3}\b")
REASON = re.compile(r" - \w+ \w+| - \w{3,}|# (?!noqa\b|nosec\b)\w+ \w+")

PIN = re.compile(r"(?P<name>[a-z0-9._-]+(?:\[[a-z,]+\])?)==[\w.]+(?: ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def modules(root: Path, folders: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    """Yield every Python file in these folders, with its name."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            yield str(path.relative_to(root)), path


def runs_data(root: Path) -> list[str]:
    """Name each place where the product could create code or objects from data."""
    return [
        f"{name}:{line}: {what}"
        for name, path in modules(root, PRODUCT)
        for line, what in dangers(parsed(path))
        if not (what in IMPORTS_BY_NAME and name in IMPORTERS)
    ]


def dangers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each import and each call of a module that could run data."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names if a.name.split(".")[0] in READS_OBJECTS)
        elif isinstance(node, ast.ImportFrom):
            if (node.module or "").split(".")[0] in READS_OBJECTS:
                yield node.lineno, str(node.module)
            yield from ((node.lineno, a.name) for a in node.names if a.name in IMPORTS_BY_NAME)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RUNS_TEXT:
            yield node.lineno, node.func.id
        elif isinstance(node, ast.Attribute) and node.attr in IMPORTS_BY_NAME:
            yield node.lineno, node.attr


def blanket_exceptions(root: Path) -> list[str]:
    """Name each `noqa` or `nosec` without a rule, and each exception to a security rule without a reason."""
    return [
        f"{name}:{number}: {fault}"
        for name, path in modules(root, (*PRODUCT, "tests"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (fault := fault_of(line))
    ]


def fault_of(line: str) -> str | None:
    """Return the fault of the exceptions at the end of a line, or None."""
    exceptions = list(EXCEPTION.finditer(line))
    if not exceptions:
        return None
    if any(not CODES[tool].match(f"{rules} ") for tool, rules in (found.groups() for found in exceptions)):
        return f"a {exceptions[0][1]} that names no rule"
    comment = line[exceptions[0].start() :]
    is_security = SECURITY.search(comment) or "nosec" in comment
    return "no reason" if is_security and not REASON.search(comment) else None


def switched_off(pyproject: str) -> list[str]:
    """Name each setting that switches off a security rule of ruff, except the allowed ones."""
    lint = tomllib.loads(pyproject)["tool"]["ruff"]["lint"]
    found = [] if "S" in lint["select"] else ["S is not selected"]
    found += [
        f"{code} is ignored everywhere" for code in lint["ignore"] if code[0] == "S" and code[1:2].isdigit()
    ]
    for files, codes in lint["per-file-ignores"].items():
        security = {code for code in codes if code == "S" or re.match(r"S\d", code)}
        found += [f"{code} for {files}" for code in sorted(security - ALLOWED.get(files, set()))]
    return found


def lock_faults(text: str) -> list[str]:
    """Name each line of a lock that is no pinned name, no hash and no comment, and each name without a hash."""
    found, without = [], ""
    for number, line in enumerate(text.splitlines(), start=1):
        if pin := PIN.fullmatch(line):
            found += [f"{without} has no hash"] if without else []
            without = pin["name"]
        elif HASH.fullmatch(line):
            without = ""
        elif not line.lstrip().startswith("#") or re.search(r"\w+://", line):
            found.append(f"line {number}: {line.strip()}")
    return found + ([f"{without} has no hash"] if without else [])


def test_no_code_runs_its_input() -> None:
    """A role that may write a row, a payload or a result must not be able to run code by that."""
    assert [] == runs_data(REPOSITORY)


def test_the_modules_that_import_by_name_still_do() -> None:
    """An exception that is not needed any more could hide a later fault."""
    assert sorted(IMPORTERS) == [
        name
        for name, path in modules(REPOSITORY, PRODUCT)
        if any(what in IMPORTS_BY_NAME for _, what in dangers(parsed(path)))
    ]


def test_every_exception_names_its_rule_and_its_reason() -> None:
    """So a reviewer can judge each exception from its own line."""
    assert [] == blanket_exceptions(REPOSITORY)


def test_no_security_rule_is_switched_off() -> None:
    """Each rule is on for the product. Only tests and .ci have a few exceptions."""
    assert [] == switched_off((REPOSITORY / "pyproject.toml").read_text())


def test_the_lock_pins_hashes_and_names_no_source() -> None:
    """pip installs exactly the locked packages, from any source."""
    assert [] == lock_faults(LOCK.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "import pickle\n",
        "from marshal import loads\n",
        "import yaml\n",
        "eval(row.type)\n",
        "exec(row.payload)\n",
        "__import__(row.type)\n",
        "import importlib\nimportlib.import_module(row.type)\n",
        "from importlib import import_module\n",
        "import pkgutil\npkgutil.resolve_name(row.type)\n",
    ],
)
def test_code_that_runs_data_is_found(tmp_path: Path, text: str) -> None:
    """These are the known ways to attack a job queue."""
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "claim.py").write_text(text)

    assert 1 == len(runs_data(tmp_path))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("f()  # " + "noqa", "a noqa that names no rule"),
        ("f()  # " + "nosec", "a nosec that names no rule"),
        ("f()  # " + "noqa: S603", "no reason"),
        ("f()  # " + "nosec B603 # " + "noqa: S603", "no reason"),
        ("f()  # " + "nosec B603 # " + "noqa: S603 - our own command", None),
        ("import subprocess  # " + "nosec B404 # each call says what it starts", None),
        ("f()  # " + "noqa: FBT001", None),
    ],
)
def test_a_blanket_exception_is_found(line: str, fault: str | None) -> None:
    """It names no rule, or it names a security rule and gives no reason."""
    assert fault == fault_of(line)


def test_a_switched_off_rule_is_found() -> None:
    """A rule is off everywhere, for the product, or for the tests without need."""
    text = (
        '[tool.ruff.lint]\nselect = ["E"]\nignore = ["S608", "SIM300"]\n'
        '[tool.ruff.lint.per-file-ignores]\n"orchestrator/**" = ["S"]\n"tests/**" = ["S101", "S301", "T20"]\n'
    )

    expected = [
        "S is not selected", "S608 is ignored everywhere", "S for orchestrator/**", "S301 for tests/**",
    ]  # fmt: skip
    assert expected == switched_off(text)


def test_a_loose_lock_is_found() -> None:
    """A line has no hash, no exact version, or a source."""
    pinned = f"a==1.0 \\\n    --hash=sha256:{'0' * 64}\n    # via b\n"

    assert [] == lock_faults(pinned)
    assert ["a has no hash"] == lock_faults("a==1.0 \\\n    # via b\n")
    assert ["line 1: a>=1.0"] == lock_faults("a>=1.0\n")
    assert ["line 4: --index-url https://example.com/simple"] == lock_faults(
        pinned + "--index-url https://example.com/simple\n"
    )
    assert ["line 4: b @ git+https://example.com/b"] == lock_faults(
        pinned + "b @ git+https://example.com/b\n"
    )
    assert ["line 4: # from https://example.com/simple"] == lock_faults(
        pinned + "# from https://example.com/simple\n"
    )
