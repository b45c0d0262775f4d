"""Read a page: its blocks of code in order, and the notes about each block.

    ```python     runs in the page's namespace; saved to a file if the line above names one: "Save as `shop.py`:"
    ```sql        runs statement by statement, as in psql
    ```console    each line that begins with `$ ` is a command; the lines below it are its output
    ```text       the output of the block right above; anywhere else it is a drawing

The comment `<!-- not run: reason -->` right above a block exempts it. test_pages.py lists all exempt blocks. In
expected output, `…` stands for any text in a line; alone on a line it stands for any number of lines. The output of
several processes has no order: with `--processes` each line of the page must be somewhere in the output.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RUN = ("python", "sql", "console")
LANGUAGES = (*RUN, "text")

FENCE = re.compile(r"^(?P<indent>\s*)(?P<fence>`{3,}|~{3,})(?P<language>.*)$")
NOT_RUN = re.compile(r"^<!-- not run: (?P<reason>.+) -->$")
FILE = re.compile(r"`(?P<file>[\w/]+\.py)`[^`]*:$")
RULER = re.compile(r"[-+]+$")

MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::\d\d)?)?"), "<time>"),
    (re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
)
"""Parts that differ from run to run. A comparison masks them on both sides."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `output` is its expected output; `file` is the file to save it as."""

    line: int
    language: str
    text: str
    not_run: str | None = None
    file: str | None = None
    output: str | None = None


def pages(root: Path = REPOSITORY) -> list[Path]:
    """Return every page for users: the README and all pages in docs/."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page. A ```text right below a Python or SQL block becomes its output."""
    found: list[Block] = []
    adjacent = False
    for block, follows in fenced(text):
        if block.language == "text" and follows and adjacent and found[-1].language in ("python", "sql"):
            last = found.pop()
            block = Block(last.line, last.language, last.text, last.not_run, last.file, block.text)
        adjacent = block.language in RUN
        found.append(block)
    return found


def fenced(text: str) -> Iterator[tuple[Block, bool]]:
    """Yield each block, and whether only blank lines separate it from the block before."""
    above = ""
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        fence = FENCE.match(line)
        if fence is None:
            above = line.strip() or above
            continue
        body: list[str] = []
        for _, inner in lines:
            if inner.strip() == fence["fence"]:
                break
            body.append(inner)
        expected, named = NOT_RUN.match(above), FILE.search(above)
        yield (
            Block(
                number,
                fence["indent"] + fence["language"],
                "\n".join(body) + "\n",
                not_run=expected["reason"] if expected else None,
                file=named["file"] if named and fence["language"] == "python" else None,
            ),
            above == "```",
        )
        above = "```"


def commands(text: str) -> list[tuple[str, str]]:
    """Split a console block into commands and their expected output."""
    found: list[tuple[list[str], list[str]]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(([line[2:]], []))
        elif found and found[-1][0][-1].endswith("\\") and not found[-1][1]:
            found[-1][0].append(line)
        elif found:
            found[-1][1].append(line)
        else:
            raise ValueError(f"a console block begins with `$ `, not with {line!r}")
    return [("\n".join(command), "\n".join(output)) for command, output in found]


def statements(text: str) -> list[str]:
    """Split a block of SQL at each semicolon that ends a line. Comments alone are no statement."""
    parts = re.split(r";[ \t]*(?:--[^\n]*)?\n", text)
    return [part.strip() for part in parts if re.sub(r"--[^\n]*", "", part).strip()]


def agrees(expected: str, printed: str, *, in_any_order: bool = False) -> bool:
    """Return whether expected and actual output are equal, except for white space, rulers, times and ids."""
    lines = stable(printed)
    if in_any_order:
        shown = [line for line in stable(expected) if line != "…"]
        return all(any(re.fullmatch(as_pattern(line), there) for there in lines) for line in shown)
    pattern = "".join(
        r"(?:[^\n]*\n)*?" if line == "…" else as_pattern(line) + r"\n" for line in stable(expected)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


def as_pattern(line: str) -> str:
    """Return a line of a page as a regular expression: `…` stands for anything."""
    return re.escape(line).replace("…", r"[^\n]*?")


def stable(text: str) -> list[str]:
    """Return the lines without blank lines and rulers, with times and ids masked."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not RULER.match(line.replace(" ", ""))]
