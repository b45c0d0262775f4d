"""A statement comes from a file, or from one section of it; a slip shows when the module is imported."""

from pathlib import Path

import pytest

from orchestrator.postgres import statement


@pytest.fixture
def caller(tmp_path: Path) -> str:
    """A module with files beside it."""
    (tmp_path / "whole.sql").write_text("-- Why.\nSELECT 1\n")
    (tmp_path / "short.sql").write_text(
        "-- Both.\n\n-- name: first\n-- Why.\nSELECT 1\n\n-- name: second\nSELECT 2,\n    3\n"
    )
    (tmp_path / "twice.sql").write_text("-- name: first\nSELECT 1\n-- name: first\nSELECT 2\n")
    return str(tmp_path / "caller.py")


def test_a_file_without_sections_is_one_statement(caller: str) -> None:
    """As it stands."""
    assert b"-- Why.\nSELECT 1\n" == statement.load(caller, "whole.sql")


def test_a_section_is_a_statement_with_its_comment(caller: str) -> None:
    """Neither the comment of the file nor the next section belongs to it."""
    assert b"-- Why.\nSELECT 1" == statement.load(caller, "short.sql", "first")
    assert b"SELECT 2,\n    3" == statement.load(caller, "short.sql", "second")


@pytest.mark.parametrize(
    ("name", "section"), [("short.sql", "third"), ("short.sql", ""), ("whole.sql", "first")]
)
def test_a_section_that_is_not_there_is_refused(caller: str, name: str, section: str) -> None:
    """So is a file of sections as a whole: it is no statement."""
    with pytest.raises(
        LookupError, match=rf"^{name} beside .*caller.py has no section '{section}'; it has \["
    ):
        statement.load(caller, name, section)


def test_a_section_that_stands_twice_is_refused(caller: str) -> None:
    """Which of them is meant?"""
    with pytest.raises(ValueError, match=r"^twice.sql beside .* has a section twice: \['first', 'first'\]$"):
        statement.load(caller, "twice.sql", "first")
