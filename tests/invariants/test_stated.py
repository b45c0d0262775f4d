"""The page for users and the tests have the same invariants."""

import re
from pathlib import Path

from tests.invariants import STATED

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
ROW = re.compile(r"^\| (?P<name>I\d+) \| \*\*(?P<title>[^*]+)\.\*\*", re.MULTILINE)


def test_the_page_has_the_same_invariants() -> None:
    """By number and title; the page adds how each one would be broken."""
    rows = {row["name"]: row["title"].lower() for row in ROW.finditer(PAGE.read_text())}

    assert {name: text.partition(":")[0] for name, text in STATED.items()} == rows
