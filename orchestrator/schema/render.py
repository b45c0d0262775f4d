"""Renew the generated parts of the .sql files from `task/columns.py`: `make render`.

A part stands between two comments, and its name says what it lists (`parts.py`):

    -- generated: kept of t
    t.id, t.run_at, …
    -- end

So each file stays the SQL that the server gets, and reads as such. A house test fails where a part is out of date.
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from orchestrator.schema.option_parts import NO_BREAK, Names
from orchestrator.schema.parts import PARTS

PACKAGE = Path(__file__).parents[1]
PART = re.compile(
    r"(?P<indent>[ ]*)-- generated: (?P<name>\w[\w ]*?)(?: of (?P<of>[\w.]+))?\n(?P<body>.*?)(?P=indent)-- end\n",
    re.DOTALL,
)
WIDTH = 120


def main() -> None:
    """Renew every file, and report the changed ones."""
    for path in files():
        old = path.read_text(encoding="utf-8")
        new = rendered(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"renewed {path.relative_to(PACKAGE.parent)}\n")


def rendered(text: str) -> str:
    """Return a file's text with every generated part written anew; an unknown name is an error."""

    def anew(part: re.Match[str]) -> str:
        lines = PARTS[part["name"]](part["of"] or "")
        indent = part["indent"]
        body = "".join(f"{indent}{line}\n" for entry in lines for line in wrapped(entry, len(indent)))
        return f"{part[0].partition(chr(10))[0]}\n{body}{indent}-- end\n"

    return PART.sub(anew, text)


def wrapped(entry: str, indented: int) -> list[str]:
    if not isinstance(entry, Names):
        return [entry]
    lines = textwrap.wrap(entry, WIDTH - indented, break_long_words=False, break_on_hyphens=False)
    return [line.replace(NO_BREAK, " ") for line in lines]


def files() -> Iterator[Path]:
    """Return the files that have generated parts."""
    for path in sorted(PACKAGE.rglob("*.sql")):
        if "-- generated: " in path.read_text(encoding="utf-8"):
            yield path


if __name__ == "__main__":
    main()
