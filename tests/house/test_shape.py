"""The form of the code: small modules, small functions, a docstring at each package, names with a meaning."""

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
    """Name the modules that no longer fit in the head."""
    return [
        f"{path.relative_to(root)}: {length} lines"
        for path in modules(root)
        if (length := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    ]


def long_functions(root: Path) -> list[str]:
    """Name the functions that no longer fit on a screen; decorators do not count, docstrings do."""
    return [
        f"{path.relative_to(root)}:{node.lineno} {node.name}: {length} lines"
        for path in modules(root)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]


def modules_without_essay(root: Path) -> list[str]:
    """Name the modules, and the packages through their `__init__`, that do not open with a docstring."""
    return [str(path.relative_to(root)) for path in modules(root) if not ast.get_docstring(parsed(path))]


def rooms_without_door(root: Path) -> list[str]:
    """Name the folders of the package that hold modules and no `__init__`, where their essay would stand."""
    rooms = {path.parent for path in modules(root, ("orchestrator",))}
    return [str(room.relative_to(root)) for room in sorted(rooms) if not (room / "__init__.py").exists()]


def empty_names(root: Path) -> list[str]:
    """Name the modules and packages whose name only says that their contents have not met their room yet."""
    return [
        str(path.relative_to(root))
        for path in modules(root, (*PRODUCT, "tests"))
        if EMPTY_NAMES & {path.stem, *path.relative_to(root).parent.parts}
    ]


def test_no_module_is_longer_than_three_hundred_lines() -> None:
    """A module that outgrew its limit is two modules."""
    assert [] == long_modules(REPOSITORY)


def test_no_function_is_longer_than_fifty_lines() -> None:
    """A function that outgrew its limit is a pipeline of named steps."""
    assert [] == long_functions(REPOSITORY)


def test_every_module_opens_with_its_essay() -> None:
    """Who opens a file is told first what it owns and why."""
    assert [] == modules_without_essay(REPOSITORY)


def test_every_room_has_a_door() -> None:
    """A folder with modules is a package, so that its essay has a place and the walls see it."""
    assert [] == rooms_without_door(REPOSITORY)


def test_no_module_is_called_utils() -> None:
    """A module is found by its name in two guesses; `utils` would be everybody's third."""
    assert [] == empty_names(REPOSITORY)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house in good order, for a fault to be planted in."""
    (tmp_path / "orchestrator").mkdir()
    (tmp_path / "orchestrator" / "__init__.py").write_text('"""What it is."""\n')
    return tmp_path


def test_a_house_in_order_passes(house: Path) -> None:
    """The rules find nothing where nothing is wrong."""
    found = [
        *long_modules(house),
        *long_functions(house),
        *modules_without_essay(house),
        *rooms_without_door(house),
        *empty_names(house),
    ]

    assert [] == found


def test_a_long_module_is_found(house: Path) -> None:
    """One line over the limit is over the limit."""
    (house / "orchestrator" / "claim.py").write_text('"""Why."""\n' + "x = 1\n" * MODULE_LINES_MAX)

    assert ["orchestrator/claim.py: 301 lines"] == long_modules(house)


def test_a_long_function_is_found(house: Path) -> None:
    """Coroutines and methods are functions too."""
    body = "        x = 1\n" * FUNCTION_LINES_MAX
    (house / "orchestrator" / "claim.py").write_text(
        f"class A:\n    @final\n    async def batch(self):\n{body}"
    )

    assert ["orchestrator/claim.py:3 batch: 51 lines"] == long_functions(house)


def test_a_missing_essay_is_found(house: Path) -> None:
    """An empty `__init__` is a door without a sign."""
    (house / "orchestrator" / "claim").mkdir()
    (house / "orchestrator" / "claim" / "__init__.py").touch()

    assert ["orchestrator/claim/__init__.py"] == modules_without_essay(house)


def test_a_missing_door_is_found(house: Path) -> None:
    """A folder that is no package would be invisible to the walls."""
    (house / "orchestrator" / "claim").mkdir()
    (house / "orchestrator" / "claim" / "batch.py").write_text('"""Why."""\n')

    assert ["orchestrator/claim"] == rooms_without_door(house)


@pytest.mark.parametrize("name", ["utils.py", "misc/sets.py"])
def test_an_empty_name_is_found(house: Path, name: str) -> None:
    """The name of a package counts like that of a module."""
    path = house / "orchestrator" / name
    path.parent.mkdir(exist_ok=True)
    path.touch()

    assert [f"orchestrator/{name}"] == empty_names(house)
