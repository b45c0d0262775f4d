"""Make a copy of the code with some edits, and render its generated parts."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
COPIED = ("orchestrator", "migrations", "tests")


def edit_a_copy(folder: Path, edits: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Copy the code to a folder, replace texts in its files, and render the generated parts."""
    for name in COPIED:
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name, replaced in edits.items():
        path = folder / name
        text = path.read_text()
        for old, new in replaced:
            assert 1 == text.count(old), f"{name}: {old}"
            text = text.replace(old, new)
        path.write_text(text)
    run(folder, "-m", "orchestrator.schema.render")
    run(folder, "migrations/freeze.py", "0001_foundation")


def run(folder: Path, *words: str) -> str:
    """Run Python in the copy, with the code of the copy."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout
