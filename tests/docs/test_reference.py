"""The reference pages are equal to the code: names, arguments, types, defaults, options, SQLSTATEs, transitions."""

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
# The first value of a new row of audit: a literal, or a CASE.
RECORDED = re.compile(
    r"INSERT INTO orchestrator\.audit \(action[^)]*\)\s+(?:VALUES \(|SELECT)\s*('\w+'|CASE.*?END)", re.DOTALL
)
RENEW = "run `python -m tests.docs.reference`, and write the prose of the new rows"


@pytest.mark.parametrize("page", PAGES)
def test_the_reference_is_up_to_date(page: str, connection: psycopg.Connection) -> None:
    """Each page shows its functions, views, tables, options, settings and commands as the code defines them."""
    text = (REPOSITORY / page).read_text()
    writers = reference.all_writers(connection)[page]

    assert sorted(writers) == sorted(reference.parts(text)), RENEW
    assert reference.renewed(text, writers) == text, RENEW


@pytest.mark.parametrize("page", PAGES)
def test_everything_in_the_reference_is_explained(page: str) -> None:
    """Each generated row has prose, because a name alone explains nothing."""
    assert [] == reference.empty_cells((REPOSITORY / page).read_text())


def test_renewing_a_page_keeps_prose_and_replaces_facts() -> None:
    """It writes a changed type, deletes a row that the code no longer has, and adds a new row with empty prose."""
    old = "| Column | Type | Meaning |\n| --- | --- | --- |\n| `a` | `int` | the first |\n| `b` | `int` | second |\n"
    text = f"<!-- generated: view v -->\n{old}<!-- end -->\n"
    writer = reference.table_writer(["Column", "Type", "Meaning"], [["`a`", "`bigint`"], ["`c`", "`text`"]])

    new = reference.renewed(text, {"view v": writer})

    assert "| `a` | `bigint` | the first |\n| `c` | `text` |  |\n<!-- end -->" in new
    assert "`b`" not in new
    assert ["| `c` | `text` |  |"] == reference.empty_cells(new)


def test_the_reference_lists_the_actions_of_the_audit() -> None:
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
