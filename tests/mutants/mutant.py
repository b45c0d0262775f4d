"""A planted fault: the text it replaces, why that is wrong, and which tests should notice."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[2]
# What `schema/` defines reaches a database through a revision, which has a copy of each file.
SCHEMA = "orchestrator/schema/"
REVISIONS = "migrations/versions"
NOT_COPIED = shutil.ignore_patterns(
    ".*", "__pycache__", "*.egg-info", "build", "dist", "docs", "node_modules", "*.pyc"
)


class Edit(NamedTuple):
    """One text in one file, which stands there once, and what stands there instead."""

    file: str
    text: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault. `suites`: the tests that should find it, files or single tests, the cheapest first."""

    name: str
    why: str
    edits: tuple[Edit, ...]
    suites: tuple[str, ...]


class NotThere(Exception):
    """The text that a mutant replaces does not stand where it should: look how the code has changed since."""


def mutant(
    name: str,
    file: str,
    text: str,
    replacement: str,
    *,
    why: str,
    suites: tuple[str, ...],
    also: tuple[tuple[str, str], ...] = (),
) -> Mutant:
    """Describe a fault in one file; `also`: further texts of the same file, and what stands there instead."""
    edits = (Edit(file, text, replacement), *(Edit(file, *one) for one in also))
    return Mutant(name, why, edits, tuple(f"tests/{suite}" for suite in suites))


def mutated(tree: Path, mutant: Mutant) -> dict[Path, str]:
    """Return the files that the fault changes, with their new text."""
    texts: dict[Path, str] = {}
    for edit in mutant.edits:
        path = tree / edit.file
        before = texts.get(path) or (path.read_text(encoding="utf-8") if path.exists() else "")
        found = before.count(edit.text)
        if found != 1 or edit.text == edit.replacement:
            raise NotThere(f"{mutant.name}: {edit.file} holds {found} times, not once: {edit.text!r}")
        texts[path] = before.replace(edit.text, edit.replacement)
    return texts | frozen(tree, texts)


def frozen(tree: Path, texts: Mapping[Path, str]) -> dict[Path, str]:
    """Return the files of the revisions in which these texts of `schema/` stand frozen, changed alike."""
    changed: dict[Path, str] = {}
    for path, after in texts.items():
        if not path.is_relative_to(tree / SCHEMA) or path.suffix != ".sql":
            continue
        before = path.read_text(encoding="utf-8")
        for revision in sorted((tree / REVISIONS).rglob("*.sql")):
            text = changed.get(revision) or revision.read_text(encoding="utf-8")
            if before in text:
                changed[revision] = text.replace(before, after)
    return changed


@contextmanager
def planted(tree: Path, mutant: Mutant) -> Iterator[None]:
    """Plant the fault in a tree, and take it out again."""
    changed = mutated(tree, mutant)
    originals = {path: path.read_bytes() for path in changed}
    try:
        for path, text in changed.items():
            path.write_text(text, encoding="utf-8")
        yield
    finally:
        for path, original in originals.items():
            path.write_bytes(original)


def copy_of(repository: Path, into: Path) -> Path:
    """Copy a tree, to plant faults in."""
    shutil.copytree(repository, into, ignore=NOT_COPIED)
    return into
