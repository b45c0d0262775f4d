"""Copy what has changed in schema/ into the newest revision, which is not released yet: `make render`.

A revision creates functions, views and triggers as they were at its release, so it has its own copies. The first one
has a copy of each object; a later one has those that differ from the last copy before it, and for its downgrade these
last copies. Tables, and whatever else it changes, are written by hand: 1_tables.sql and downgrade_2_tables.sql.

A database that has a revision does not run it again, so a released revision never changes. `released.sha256` has the
checksums of its files. At its release, `python -m orchestrator.schema.freeze --release` adds them.
"""

import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from orchestrator.postgres import statement

SCHEMA = Path(__file__).parent
VERSIONS = SCHEMA.parents[1] / "migrations" / "versions"
RELEASED = VERSIONS / "released.sha256"

UNCHECKED, PATIENT = (
    statement.load(__file__, "freeze.sql", name).decode() + ";\n" for name in ("unchecked", "patient")
)
FROZEN = {
    "functions": ("2_functions.sql", f"-- The functions, frozen.\n\n{UNCHECKED}"),
    "views": ("3_views.sql", "-- The views, frozen.\n"),
    "triggers": ("4_triggers.sql", "-- The triggers, frozen.\n"),
}
BY_HAND = {
    "1_tables.sql": PATIENT,
    "downgrade_2_tables.sql": "-- Undo 1_tables.sql.\n",
}
DOWNGRADE = "downgrade_1_objects.sql"

MARKER = re.compile(r"^-- (functions/\w+|views/\w+|triggers/\w+)\.sql\n", re.MULTILINE)
CREATED = re.compile(r"^CREATE OR REPLACE (FUNCTION|VIEW|TRIGGER) ([\w.]+)", re.MULTILINE)
DROPPED = re.compile(r"^DROP [^;]+;\n")
TABLE = re.compile(r"^(?:BEFORE|AFTER) .*? ON (\S+)", re.MULTILINE)
# What CREATE OR REPLACE FUNCTION cannot change: the arguments and the result.
HEAD = re.compile(r"^CREATE OR REPLACE FUNCTION (.*?)^LANGUAGE ", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"--[^\n]*")

Objects = Mapping[str, str]


def freeze() -> None:
    """Write the newest revision's copies."""
    *before, newest = folders()
    if newest.name in released_folders():
        if changes := list(changed(copies(folders()), objects())):
            sys.exit(
                f"{', '.join(changes)}: not as in revision {newest.name}, which is released. Make the next revision "
                'first: .venv/bin/alembic revision -m "add a thing"'
            )
        return
    old, new = copies(before), objects()
    newest.mkdir(exist_ok=True)
    for name, text in BY_HAND.items():
        # The first revision has names of its own, and removes everything in its downgrade.
        if before and not (newest / name).exists():
            (newest / name).write_text(text, encoding="utf-8")
    for kind, (file, header) in FROZEN.items():
        ours = [name for name in changed(old, new) if name.startswith(f"{kind}/")]
        write(newest / file, header, [entry(name, old.get(name), new.get(name)) for name in ours])
    if before:
        back = [entry(name, new.get(name), old.get(name), is_back=True) for name in changed(old, new)]
        write(newest / DOWNGRADE, f"-- The objects as they were before, frozen.\n\n{UNCHECKED}", back)


def folders() -> list[Path]:
    """Return the folder of each revision, the oldest first; that of a new revision may not exist yet."""
    return [module.with_suffix("") for module in sorted(VERSIONS.glob("[0-9]*.py"))]


def objects() -> Objects:
    """Return the present text of each object, by kind and name: `functions/enqueue`."""
    return {
        f"{kind}/{file.stem}": file.read_text(encoding="utf-8")
        for kind in FROZEN
        for file in sorted((SCHEMA / kind).glob("*.sql"))
    }


def copies(of: list[Path]) -> Objects:
    """Return the text of each object after these revisions."""
    found: dict[str, str] = {}
    for path in (folder / file for folder in of for file, _ in FROZEN.values()):
        if path.exists():
            _, *parts = MARKER.split(path.read_text(encoding="utf-8"))
            for name, text in zip(parts[::2], parts[1::2], strict=True):
                found[name] = DROPPED.sub("", text.rstrip("\n") + "\n")
    return {name: text for name, text in found.items() if text.strip()}


def changed(old: Objects, new: Objects) -> Iterator[str]:
    """Yield the names of the objects that differ, in the order of their kinds."""
    for kind in FROZEN:
        for name in sorted({*old, *new}):
            if name.startswith(f"{kind}/") and old.get(name) != new.get(name):
                yield name


def entry(name: str, old: str | None, new: str | None, *, is_back: bool = False) -> str:
    """Return the statements that turn one object into another."""
    must_drop = old is not None and (
        new is None or head(old) != head(new) or (is_back and name.startswith("views/"))
    )
    return f"-- {name}.sql\n" + (drop(old) if old and must_drop else "") + (new or "")


def head(text: str) -> str | None:
    found = HEAD.search(COMMENT.sub("", text))
    return " ".join(found[1].split()) if found else None


def drop(text: str) -> str:
    """Return the statement that drops an object; no two functions have the same name."""
    created, table = CREATED.search(text), TABLE.search(text)
    if created is None:
        sys.exit(f"no CREATE OR REPLACE FUNCTION, VIEW or TRIGGER at the beginning of a line in:\n{text}")
    return (
        f"DROP {created[1]} {created[2]}{f' ON {table[1]}' if created[1] == 'TRIGGER' and table else ''};\n"
    )


def write(path: Path, header: str, entries: list[str]) -> None:
    """Write the entries to a file; without any there is no file."""
    if entries:
        path.write_text("\n".join([header, *entries]), encoding="utf-8")
    else:
        path.unlink(missing_ok=True)


def released_folders() -> set[str]:
    return {Path(name).parts[0] for name in released()}


def released() -> dict[str, str]:
    """Return the checksum of each released file, by its path in versions/."""
    lines = RELEASED.read_text(encoding="utf-8").splitlines() if RELEASED.exists() else []
    return {name: checksum for checksum, _, name in (line.partition("  ") for line in lines)}


def checksums() -> dict[str, str]:
    """Return the checksum of each revision's files as they are now."""
    paths = [
        path for folder in folders() for path in (folder.with_suffix(".py"), *sorted(folder.glob("*.sql")))
    ]
    return {
        path.relative_to(VERSIONS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths
    }


def release() -> None:
    """Record the files of every revision as released, in the format of sha256sum."""
    freeze()
    RELEASED.write_text(
        "".join(f"{checksum}  {name}\n" for name, checksum in checksums().items()), encoding="utf-8"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            freeze()
        case ["--release"]:
            release()
        case _:
            sys.exit("usage: python -m orchestrator.schema.freeze [--release]")
