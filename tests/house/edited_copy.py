"""Make a copy of the code with a new revision and some edits, and render its generated parts."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.schema import compatibility

REPOSITORY = Path(__file__).parents[2]
COPIED = ("orchestrator", "migrations", "tests", "alembic.ini")
NOW, NEXT = compatibility.NEEDED, compatibility.NEEDED + 1
REVISION = f"migrations/versions/{NEXT:04}_add_a_thing"

Edits = Mapping[str, Sequence[tuple[str, str]]]

# Otherwise the code would run on a database without what the revision adds.
NEEDS_IT: Edits = {"orchestrator/schema/compatibility.py": [(f"NEEDED = {NOW}\n", f"NEEDED = {NEXT}\n")]}


def edit_a_copy(folder: Path, edits: Edits) -> None:
    """Copy the code to a folder, make the next revision, replace texts in files, and render the generated parts."""
    for name in COPIED:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(REPOSITORY / name, folder)
    run(folder, "-m", "alembic", "revision", "-m", "add a thing")
    run(folder, "-m", "orchestrator.schema.freeze")
    for name, replaced in edits.items():
        path = folder / name
        text = path.read_text()
        for old, new in replaced:
            assert 1 == text.count(old), f"{name}: {old}"
            text = text.replace(old, new)
        path.write_text(text)
    run(folder, "-m", "orchestrator.schema.render")
    run(folder, "-m", "orchestrator.schema.freeze")


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
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout
