"""Freeze schema/'s functions, views and triggers into a revision: `python migrations/freeze.py 0001_foundation`.

A revision creates the objects as they were at its release, so it has its own copy of them. Run this only for a revision
that is not released yet: a database that has a revision does not run it again.
`tests/schema/test_schema_equals_migrations.py` fails if schema/ differs from what the revisions create.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
SCHEMA = HERE.parent / "orchestrator" / "schema"

# They call each other, so their bodies are checked when they are first run.
UNCHECKED = """\
-- They call each other, so their bodies are checked when they are first run.
SET LOCAL check_function_bodies = off;"""
FROZEN = {
    "2_functions.sql": ("functions", f"-- The functions, frozen.\n\n{UNCHECKED}"),
    "3_views.sql": ("views", "-- The views, frozen."),
    "4_triggers.sql": ("triggers", "-- The triggers, frozen."),
}


def freeze(folder: Path) -> None:
    """Write the frozen files of one revision's folder."""
    for name, (kind, header) in FROZEN.items():
        objects = [file.read_text(encoding="utf-8") for file in sorted((SCHEMA / kind).glob("*.sql"))]
        (folder / name).write_text("\n".join([f"{header}\n", *objects]), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2 or not (HERE / "versions" / sys.argv[1]).is_dir():
        sys.exit("usage: python migrations/freeze.py REVISION_FOLDER, for example 0001_foundation")
    freeze(HERE / "versions" / sys.argv[1])
