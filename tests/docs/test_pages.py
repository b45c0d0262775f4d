"""Each block of code in the README and in docs/ runs, in page order, and prints the output that the page shows."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import servers
from tests.docs.pages import (
    LANGUAGES,
    REPOSITORY,
    RUN,
    Block,
    agrees,
    blocks,
    commands,
    pages,
    statements,
)
from tests.docs.session import Session, bare_environment
from tests.tiers import long

PAGES = {str(path.relative_to(REPOSITORY)): path.read_text() for path in pages()}

INSTALLING = "the wheel is installed and used by `make wheel`"
NOT_RUN: dict[str, list[str]] = {
    "README.md": [INSTALLING, "it would run itself"],
    "docs/howto/restore-a-backup.md": ["PostgreSQL's programs must have the server's version"],
    "docs/howto/tls.md": ["tests/security/test_tls.py does, with a server that speaks TLS"] * 2,
    "docs/tutorial/first-task.md": [INSTALLING],
}
"""All blocks that no test runs, by page, with the reason that the page gives. Keep this list short."""


# Other tests run the commands of these pages too: for Django, `orchestrator.testing`, processes and the README.
LONG = {
    "docs/howto/enqueue-with-django.md",
    "docs/howto/run-in-processes.md",
    "docs/howto/test-your-tasks.md",
    "docs/tutorial/first-task.md",
}


@pytest.fixture
def session(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, page: str) -> Iterator[Session]:
    """A session with an empty folder and a database. The database is migrated, unless the page itself migrates it."""
    migrates = any("orchestrator migrate" in b.text for b in blocks(PAGES[page]) if b.language == "console")
    url = request.getfixturevalue("empty_database_url" if migrates else "database_url")
    with servers.temporary_directory() as folder:
        for name in os.environ.keys() - bare_environment().keys():
            monkeypatch.delenv(name)
        monkeypatch.setenv("ORCHESTRATOR_DATABASE_URL", url)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.chdir(folder)
        reader = Session(url, folder, bare_environment())
        try:
            yield reader
        finally:
            reader.close()
            # A page may have started an embedded server: wait for its end before the folder is removed.
            # os.walk, not rglob: rglob fails if a stopping server removes its socket's folder meanwhile.
            for place, _, names in os.walk(folder):
                if "server.lock" in names:
                    servers.wait_until_free(Path(place, "server.lock"))


@pytest.mark.parametrize("page", [long(page) if page in LONG else page for page in PAGES])
def test_the_examples_of_a_page_work(page: str, session: Session) -> None:
    """The output of each block is the output that the page shows."""
    for block in blocks(PAGES[page]):
        if block.not_run is None:
            for shown_output, printed in session.run(block):
                of_several = block.language == "console" and "--processes" in block.text
                assert shown_output is None or agrees(shown_output, printed, in_any_order=of_several), (
                    f"{page}:{block.line}: the page shows\n{shown_output}\nand the block printed\n{printed}"
                )


def test_every_block_that_does_not_run_is_listed_here() -> None:
    """A new exemption needs an edit of this file, so a reviewer sees it."""
    exempt = {
        page: [block.not_run for block in blocks(text) if block.not_run is not None]
        for page, text in PAGES.items()
    }

    assert NOT_RUN == {page: reasons for page, reasons in exempt.items() if reasons}


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_language(page: str) -> None:
    """No test would check a block without a language, or in an unknown one."""
    assert [] == [
        f"{page}:{b.line}: {b.language!r}" for b in blocks(PAGES[page]) if b.language not in LANGUAGES
    ]


def test_the_index_links_to_every_page() -> None:
    """Readers would not find a page that docs/README.md does not link to."""
    index = PAGES["docs/README.md"]
    missing = [page for page in PAGES if page.startswith("docs/") and f"({page[5:]})" not in index]

    assert ["docs/README.md"] == missing


def test_a_page_is_split_into_blocks() -> None:
    """Each block has its output, its file and its exemption."""
    text = (
        "# A page\n\n```sql\nSELECT 1;\n```\n\n```text\n1\n```\n\nSave this as `shop.py`:\n\n```python\nx = 1\n```\n\n"
        "A drawing:\n\n```text\n--->\n```\n\n<!-- not run: it is long -->\n```console\n$ sleep 9\n```\n"
    )

    expected = [
        Block(3, "sql", "SELECT 1;\n", output="1\n"),
        Block(13, "python", "x = 1\n", file="shop.py"),
        Block(19, "text", "--->\n"),
        Block(24, "console", "$ sleep 9\n", not_run="it is long"),
    ]
    assert expected == blocks(text)


def test_blocks_are_split_into_commands_and_statements() -> None:
    """A command comes with its output, a statement with the comment above it."""
    assert [("a \\\n  b", "1\n2"), ("c", "")] == commands("$ a \\\n  b\n1\n2\n$ c\n")
    assert ["SELECT 1", "-- two\nSELECT 2"] == statements("SELECT 1;\n-- two\nSELECT 2;\n-- the end\n")


@pytest.mark.parametrize(
    ("shown_output", "printed", "same"),
    [
        (" id | n\n----+---\n  1 | 2\n", "id | n\n--+--\n 1 | 2", True),
        ("id …\n…\nend\n", "id 7\nmore\nand more\nend\n", True),
        ("…\nend\n", "end\n", True),
        ("at 2026-01-02 03:04:05+00\n", "at 2027-11-12 13:14:15.161718+00\n", True),
        ("one\n", "two\n", False),
        ("one\n", "one\ntwo\n", False),
        ("a … c\n", "a b\nc\n", False),
    ],
)
def test_output_is_compared_by_its_stable_parts(shown_output: str, printed: str, same: bool) -> None:
    """Times, ids, rulers and white space may differ; everything else must be equal."""
    assert same == agrees(shown_output, printed)


def test_lines_of_several_processes_may_be_in_any_order() -> None:
    """Each line of the page must be in the output; the order of the processes does not matter."""
    shown_output = "…child started…place=1\n…worker started…\n…\n"

    assert agrees(shown_output, "a worker started\nmore\na child started place=1\n", in_any_order=True)
    assert not agrees(shown_output, "a worker started\nmore\n", in_any_order=True)


def test_no_text_block_contains_code() -> None:
    """No test would run code in a ```text block."""
    looks_like_code = re.compile(
        r"^(?:\$ |(?:SELECT|INSERT|UPDATE|DELETE) |import |from \w+ import )", re.MULTILINE
    )

    assert {} == {
        f"{page}:{block.line}": block.text
        for page, text in PAGES.items()
        for block in blocks(text)
        if block.language not in RUN and looks_like_code.search(block.text)
    }


def test_a_wrong_page_is_found(database_url: str, tmp_path: Path) -> None:
    """The page shows wrong output for Python, for SQL and for a command."""
    text = (
        "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```sql\nSELECT 1 AS n;\n```\n\n```text\nn\n2\n(1 row)\n```\n\n"
        "```console\n$ echo 1\n2\n```\n"
    )
    reader = Session(database_url, tmp_path, bare_environment())
    try:
        answers = [pair for block in blocks(text) for pair in reader.run(block)]
    finally:
        reader.close()

    assert [False] * 3 == [agrees(shown_output or "", printed) for shown_output, printed in answers]
