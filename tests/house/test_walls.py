"""import-linter checks the import rules between packages, and finds each violation."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in this folder, with the contracts of its pyproject.toml."""
    return subprocess.run([LINT_IMPORTS, "--no-cache"], cwd=root, capture_output=True, text=True, check=False)


def test_the_product_keeps_the_import_rules() -> None:
    """A package imports only the packages below it."""
    linted = lint_imports(REPOSITORY)

    assert 0 == linted.returncode, linted.stdout


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small product with the real contracts. Tests add a forbidden import to it."""
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    package = tmp_path / "orchestrator"
    package.mkdir()
    for module in ("__init__", "errors", "claim", "finish", "observe", "worker"):
        (package / f"{module}.py").touch()
    (package / "observe.py").write_text("import structlog\n")
    (package / "worker.py").write_text("import orchestrator.claim\nimport orchestrator.observe\n")
    return tmp_path


def test_allowed_imports_pass(house: Path) -> None:
    """`worker` may import `claim`, and through `observe` the logging library."""
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
        "import of a higher package",
        "import of the worker",
        "import between stations",
        "logging outside observe",
        "package without a contract",
    ],
)
def test_a_forbidden_import_is_found(house: Path, module: str, text: str, complaint: str) -> None:
    """import-linter refuses each kind of forbidden import, and names it."""
    (house / "orchestrator" / f"{module}.py").write_text(text)

    linted = lint_imports(house)

    assert 1 == linted.returncode
    assert complaint in linted.stdout
