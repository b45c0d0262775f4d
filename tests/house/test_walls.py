"""The import rules between packages, checked by import-linter: they exist, and a violation is found."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package below this folder, by the contracts that stand there."""
    return subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=root, capture_output=True, text=True, check=False)


def test_every_wall_stands() -> None:
    """A room imports only the rooms below it."""
    linted = lint_imports(REPOSITORY)

    assert 0 == linted.returncode, linted.stdout


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A house of three rooms under the real contracts, for a wall to be broken in."""
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    package = tmp_path / "orchestrator"
    package.mkdir()
    for module in ("__init__", "errors", "claim", "finish", "observe", "worker"):
        (package / f"{module}.py").touch()
    (package / "observe.py").write_text("import structlog\n")
    (package / "worker.py").write_text("import orchestrator.claim\nimport orchestrator.observe\n")
    return tmp_path


def test_a_house_in_order_passes(house: Path) -> None:
    """The conductor may know a station, and through `observe` the logging library."""
    linted = lint_imports(house)

    assert 0 == linted.returncode, linted.stdout


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        ("errors", "import orchestrator.claim\n", "orchestrator.errors -> orchestrator.claim"),
        ("claim", "import orchestrator.worker\n", "orchestrator.claim -> orchestrator.worker"),
        ("claim", "import orchestrator.finish\n", "orchestrator.claim -> orchestrator.finish"),
        ("claim", "import structlog\n", "orchestrator.claim -> structlog"),
        ("attic", "", "orchestrator.attic"),
    ],
    ids=[
        "upwards",
        "to the conductor",
        "station to station",
        "logging outside observe",
        "a room without a place",
    ],
)
def test_a_broken_wall_is_found(house: Path, module: str, text: str, complaint: str) -> None:
    """Each kind of trespass is refused, and named."""
    (house / "orchestrator" / f"{module}.py").write_text(text)

    linted = lint_imports(house)

    assert 1 == linted.returncode
    assert complaint in linted.stdout
