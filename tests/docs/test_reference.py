"""The reference equals the code: names, arguments, types, defaults, options, SQLSTATEs, transitions."""

import re

import psycopg
import pytest

from tests.docs import reference
from tests.docs.pages import REPOSITORY

PAGES = (
    "docs/reference/sql.md",
    "docs/reference/python.md",
    "docs/reference/rights.md",
    "docs/reference/settings.md",
    "docs/reference/cli.md",
    "docs/reference/events.md",
    "docs/reference/metrics.md",
    "docs/howto/statistics.md",
)
ACTION = "| `action` | `text` | "
# What the first column of a new row of audit is: a text, or one chosen by a CASE.
RECORDED = re.compile(
    r"INSERT INTO orchestrator\.audit \(action[^)]*\)\s+(?:VALUES \(|SELECT)\s*('\w+'|CASE.*?END)", re.DOTALL
)
RENEW = "run `python -m tests.docs.reference`, and write what is new about it"


@pytest.mark.parametrize("page", PAGES)
def test_the_reference_is_up_to_date(page: str, connection: psycopg.Connection) -> None:
    """Every function, view, table, option, setting and command is on its page, as it is now."""
    text = (REPOSITORY / page).read_text()
    writers = reference.all_writers(connection)[page]

    assert sorted(writers) == sorted(reference.parts(text)), RENEW
    assert reference.renewed(text, writers) == text, RENEW


@pytest.mark.parametrize("page", PAGES)
def test_everything_in_the_reference_is_explained(page: str) -> None:
    """A generated row without a word of prose is a name, not a reference."""
    assert [] == reference.empty_cells((REPOSITORY / page).read_text())


def test_prose_is_kept_and_facts_are_not() -> None:
    """A changed type is written anew, a row that is gone goes, one that is new waits for its words."""
    old = "| Column | Type | Meaning |\n| --- | --- | --- |\n| `a` | `int` | the first |\n| `b` | `int` | second |\n"
    text = f"<!-- generated: view v -->\n{old}<!-- end -->\n"
    writer = reference.table_writer(["Column", "Type", "Meaning"], [["`a`", "`bigint`"], ["`c`", "`text`"]])

    new = reference.renewed(text, {"view v": writer})

    assert "| `a` | `bigint` | the first |\n| `c` | `text` |  |\n<!-- end -->" in new
    assert "`b`" not in new
    assert ["| `c` | `text` |  |"] == reference.empty_cells(new)


def test_the_actions_on_record_are_listed() -> None:
    """The row of `audit.action` names each action that a function or trigger writes, and no other."""
    row = next(
        line for line in (REPOSITORY / "docs/reference/sql.md").read_text().splitlines() if ACTION in line
    )
    listed = {name for name in re.findall(r"`(\w+)`", row.split(ACTION)[1]) if name != "stop_worker"}
    functions = [path.read_text() for path in (REPOSITORY / "orchestrator/schema/functions").glob("*.sql")]
    first = [found for text in functions for found in RECORDED.findall(text)]
    written = {name for value in first for name in re.findall(r"(?:THEN|ELSE|^)\s*'(\w+)'", value)}

    assert len(first) >= 8
    assert listed == written
