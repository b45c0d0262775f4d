"""The form of the code: short modules, short functions, docstrings in modules and packages, names with a meaning."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.parsing import parsed

REPOSITORY = Path(__file__).parents[2]
PRODUCT = ("orchestrator", "migrations")

MODULE_LINES_MAX = 300
FUNCTION_LINES_MAX = 50
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}


def modules(root: Path, folders: tuple[str, ...] = PRODUCT) -> Iterator[Path]:
    """Yield every Python module below these folders."""
    for folder in folders:
        yield from sorted((root / folder).rglob("*.py"))


def long_modules(root: Path) -> list[str]:
    """Name the modules that are longer than the limit."""
    return [
        f"{path.relative_to(root)}: {length} lines"
        for path in modules(root)
        if (length := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    ]


def long_functions(root: Path) -> list[str]:
    """Name the functions that are longer than the limit. Docstrings count, decorators do not."""
    return [
        f"{path.relative_to(root)}:{node.lineno} {node.name}: {length} lines"
        for path in modules(root)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def modules_without_essay(root: Path) -> list[str]:
    """Name the modules and the `__init__` of packages that do not begin with a docstring."""
    return [str(path.relative_to(root)) for path in modules(root) if not ast.get_docstring(parsed(path))]


def folders_without_init(root: Path) -> list[str]:
    """Name the folders of the product that contain modules but no `__init__`, the place for their essay."""
    rooms = {path.parent for path in modules(root, ("orchestrator",))}
    return [str(room.relative_to(root)) for room in sorted(rooms) if not (room / "__init__.py").exists()]


def empty_names(root: Path) -> list[str]:
    """Name the modules and packages whose name does not describe their contents."""
    return [
        str(path.relative_to(root))
        for path in modules(root, (*PRODUCT, "tests"))
        if EMPTY_NAMES & {path.stem, *path.relative_to(root).parent.parts}
    ]


def test_no_module_is_longer_than_three_hundred_lines() -> None:
    """Split a longer module into two."""
    assert [] == long_modules(REPOSITORY)


def test_no_function_is_longer_than_fifty_lines() -> None:
    """Split a longer function into named steps."""
    assert [] == long_functions(REPOSITORY)


def test_every_module_begins_with_its_essay() -> None:
    """The reader of a file learns first what the module owns and why."""
    assert [] == modules_without_essay(REPOSITORY)


def test_every_folder_with_modules_has_an_init() -> None:
    """A folder with modules is a package, so its essay has a place and import-linter checks it."""
    assert [] == folders_without_init(REPOSITORY)


def test_no_module_is_called_utils() -> None:
    """Readers find a module by its name, and `utils` describes nothing."""
    assert [] == empty_names(REPOSITORY)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small package without faults. Tests add a fault to it."""
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "__init__.py").write_text('"""What it is."""\n')
    return tmp_path


def test_a_package_without_faults_passes(house: Path) -> None:
    """The rules report nothing."""
    found = [
        *long_modules(house),
        *long_functions(house),
        *modules_without_essay(house),
        *folders_without_init(house),
        *empty_names(house),
    ]

    assert [] == found


def test_a_long_module_is_found(house: Path) -> None:
    """One line over the limit is too long."""
    (house / "orchestrator" / "claim.py").write_text('"""Why."""\n' + "x = 1\n" * MODULE_LINES_MAX)

    assert ["orchestrator/claim.py: 301 lines"] == long_modules(house)


def test_a_long_function_is_found(house: Path) -> None:
    """The limit holds for coroutines and methods too."""
    body = "        x = 1\n" * FUNCTION_LINES_MAX
    (house / "orchestrator" / "claim.py").write_text(
        f"class A:\n    @final\n    async def batch(self):\n{body}"
    )

    assert ["orchestrator/claim.py:3 batch: 51 lines"] == long_functions(house)


def test_a_missing_essay_is_found(house: Path) -> None:
    """An empty `__init__` has no essay."""
    (house / "orchestrator" / "claim").mkdir()
    (house / "orchestrator" / "claim" / "__init__.py").touch()

    assert ["orchestrator/claim/__init__.py"] == modules_without_essay(house)


def test_a_missing_init_is_found(house: Path) -> None:
    """import-linter would not check a folder that is no package."""
    (house / "orchestrator" / "claim").mkdir()
    (house / "orchestrator" / "claim" / "batch.py").write_text('"""Why."""\n')

    assert ["orchestrator/claim"] == folders_without_init(house)


@pytest.mark.parametrize("name", ["utils.py", "misc/sets.py"])
def test_an_empty_name_is_found(house: Path, name: str) -> None:
    """The rule checks the names of packages as well as of modules."""
    path = house / "orchestrator" / name
    path.parent.mkdir(exist_ok=True)
    path.touch()

    assert [f"orchestrator/{name}"] == empty_names(house)
