"""Copy what has changed in schema/ into the newest revision, which is not released yet: `make render`.

A revision creates functions, views and triggers as they were at its release, so it has its own copies. The first one
has a copy of each object; a later one has those that differ from the last copy before it, and the views that name a
function which it drops. Everything else is written by hand, in 1_tables.sql.

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
HEADER = "-- `make render` writes this file: {}.\n"
DROPS = "0_drops.sql"
BY_HAND = "1_tables.sql"
CREATES = {
    "functions": ("2_functions.sql", f"{HEADER.format('the functions')}\n{UNCHECKED}"),
    "views": ("3_views.sql", HEADER.format("the views")),
    "triggers": ("4_triggers.sql", HEADER.format("the triggers")),
}

MARKER = re.compile(r"^-- (functions/\w+|views/\w+|triggers/\w+)\.sql\n", re.MULTILINE)
GONE = "-- It is dropped.\n"
CREATED = re.compile(r"^CREATE OR REPLACE (FUNCTION|VIEW|TRIGGER) ([\w.]+)", re.MULTILINE)
TABLE = re.compile(r"\bON (\S+)\s+(?:FROM|NOT|DEFERRABLE|INITIALLY|REFERENCING|FOR|WHEN|EXECUTE)\b")
# What CREATE OR REPLACE FUNCTION cannot change: the arguments and the result.
HEAD = re.compile(r"^CREATE OR REPLACE FUNCTION (.*?)\bLANGUAGE\b", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"--[^\n]*")

Objects = Mapping[str, str]
"""The text of each object, by kind and name: `functions/enqueue`."""


def freeze() -> None:
    """Write the newest revision's copies, and its 1_tables.sql if it has none."""
    *before, newest = folders()
    refuse_edits()
    if newest.name in released_folders():
        if changes := list(changed(copies(folders()), objects())):
            sys.exit(
                f"{', '.join(changes)}: not as in revision {newest.name}, which is released. Make the next revision "
                'first: .venv/bin/alembic revision -m "add a thing"'
            )
        return
    newest.mkdir(exist_ok=True)
    if not (newest / BY_HAND).exists():
        (newest / BY_HAND).write_text(PATIENT, encoding="utf-8")
    for name, text in rendered(copies(before), objects()).items():
        if text is None:
            (newest / name).unlink(missing_ok=True)
        else:
            (newest / name).write_text(text, encoding="utf-8")


def rendered(old: Objects, new: Objects) -> dict[str, str | None]:
    """Return the files that turn the old objects into the new; None: the file is not needed."""
    names = list(changed(old, new))
    dropped = [name for name in names if must_drop(old.get(name), new.get(name))]
    users = users_of(dropped, old)
    # Drop the user of an object before the object: views, triggers, functions. A later view may use an earlier one.
    drops = [drop(old[name]) for name in sorted({*dropped, *users}, reverse=True)]
    files: dict[str, str | None] = {
        DROPS: "\n".join([HEADER.format("what is gone, or cannot be replaced"), PATIENT, "".join(drops)])
        if drops
        else None
    }
    for kind, (file, header) in CREATES.items():
        entries = [
            f"-- {name}.sql\n{new.get(name, GONE)}"
            for name in sorted({*names, *users})
            if name.startswith(f"{kind}/")
        ]
        files[file] = "\n".join([header, *entries]) if entries else None
    return files


def folders() -> list[Path]:
    """Return the folder of each revision, the oldest first; that of a new revision may not exist yet."""
    return [module.with_suffix("") for module in sorted(VERSIONS.glob("[0-9]*.py"))]


def objects() -> Objects:
    """Return the objects as they are now."""
    return {
        f"{kind}/{file.stem}": file.read_text(encoding="utf-8").strip("\n") + "\n"
        for kind in CREATES
        for file in sorted((SCHEMA / kind).glob("*.sql"))
    }


def copies(of: list[Path]) -> Objects:
    """Return the objects as they are after these revisions."""
    found: dict[str, str] = {}
    for path in (folder / file for folder in of for file, _ in CREATES.values()):
        if path.exists():
            _, *parts = MARKER.split(path.read_text(encoding="utf-8"))
            found |= {
                name: text.strip("\n") + "\n" for name, text in zip(parts[::2], parts[1::2], strict=True)
            }
    return {name: text for name, text in found.items() if text != GONE}


def ever(kind: str) -> set[str]:
    """Return the names of all objects of a kind that a revision has made, also of those that another has dropped."""
    file, _ = CREATES[kind]
    paths = [folder / file for folder in folders() if (folder / file).exists()]
    marked = {name for path in paths for name in MARKER.findall(path.read_text(encoding="utf-8"))}
    return {Path(name).name for name in {*marked, *objects()} if name.startswith(f"{kind}/")}


def changed(old: Objects, new: Objects) -> Iterator[str]:
    """Yield the names of the objects that differ."""
    return (name for name in sorted({*old, *new}) if old.get(name) != new.get(name))


def must_drop(old: str | None, new: str | None) -> bool:
    """Return whether CREATE OR REPLACE cannot turn the old object into the new one."""
    return old is not None and (new is None or drop(old) != drop(new) or head(old) != head(new))


def users_of(dropped: list[str], objects: Objects) -> set[str]:
    """Return the views and triggers that name one of the dropped objects, and the views that name these."""
    users = {name: text for name, text in objects.items() if name.startswith(("views/", "triggers/"))}
    found: set[str] = set()
    # Ends: each round finds another one.
    while more := {
        user
        for user, text in users.items()
        for name in {*dropped, *found}
        if user not in {*dropped, *found} and re.search(rf"\borchestrator\.{Path(name).name}\b", text)
    }:
        found |= more
    return found


def drop(text: str) -> str:
    """Return the statement that drops an object; no two functions have the same name."""
    plain = COMMENT.sub("", text)
    created, table = CREATED.search(plain), TABLE.search(plain)
    if created is None or (created[1] == "TRIGGER" and table is None):
        sys.exit(f"no CREATE OR REPLACE FUNCTION, VIEW or TRIGGER … ON that can be read in:\n{text}")
    return (
        f"DROP {created[1]} {created[2]}{f' ON {table[1]}' if created[1] == 'TRIGGER' and table else ''};\n"
    )


def head(text: str) -> str | None:
    """Return the arguments and the result of a function, without the defaults' values."""
    found = HEAD.search(COMMENT.sub("", text))
    return re.sub(r"DEFAULT [^,)]+", "DEFAULT", " ".join(found[1].split())) if found else None


def released_folders() -> set[str]:
    """Return the names of the released revisions."""
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
        path.relative_to(VERSIONS).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
        if path.is_file()
    }


def edited() -> list[str]:
    """Return the files of released revisions that are not as they were released, gone or new ones too."""
    now = {
        name: checksum
        for name, checksum in checksums().items()
        if Path(name).parts[0].removesuffix(".py") in released_folders()
    }
    return sorted(name for name in {*now, *released()} if now.get(name) != released().get(name))


def refuse_edits() -> None:
    if files := edited():
        sys.exit(f"{', '.join(files)}: released, and not as it was released. Undo the change")


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
