"""Read a page: its blocks of code in order, and the notes about each.

    ```python     run in the page's namespace; written to a file when the line above names one: "Save as `shop.py`:"
    ```sql        run statement by statement, as psql does
    ```console    lines that begin with `$ ` are run, the lines below each are what it prints
    ```text       what the block right above prints; anywhere else it is a drawing

A comment right above a block, `<!-- not run: reason -->`, exempts it, and one test lists all of these. In expected
output, `…` stands for anything on its line, and alone on a line for any lines. The output of several processes has no
order: with `--processes` each line of the page must be somewhere in the output.
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
"""What differs from run to run, on both sides of a comparison."""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. `output` is what it is said to print, `file` the file it is to be saved as."""

    line: int
    language: str
    text: str
    not_run: str | None = None
    file: str | None = None
    output: str | None = None


def pages(root: Path = REPOSITORY) -> list[Path]:
    """Return every page that a user reads: the README and all below docs/."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page; a ```text right below another block is that block's output."""
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
    """Yield each block, and whether nothing but blank lines lies between it and the one before."""
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
    """Split a console block into commands and what each is said to print."""
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
    """Split a block of SQL where a line ends with a semicolon; comments alone are no statement."""
    parts = re.split(r";[ \t]*(?:--[^\n]*)?\n", text)
    return [part.strip() for part in parts if re.sub(r"--[^\n]*", "", part).strip()]


def agrees(expected: str, printed: str, *, in_any_order: bool = False) -> bool:
    """Tell whether a page says what was printed, up to white space, rulers, times and ids."""
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
    """Return the lines that say something, the same in every run."""
    for pattern, mask in MASKS:
        text = pattern.sub(mask, text)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if line and not RULER.match(line.replace(" ", ""))]
