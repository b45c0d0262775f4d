"""A statement comes from a file, or from one section of it. A wrong name fails when the module is imported."""

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
    """The file is loaded unchanged."""
    assert b"-- Why.\nSELECT 1\n" == statement.load(caller, "whole.sql")


def test_a_section_is_a_statement_with_its_comment(caller: str) -> None:
    """The comment of the file and the next section do not belong to it."""
    assert b"-- Why.\nSELECT 1" == statement.load(caller, "short.sql", "first")
    assert b"SELECT 2,\n    3" == statement.load(caller, "short.sql", "second")


@pytest.mark.parametrize(
    ("name", "section"), [("short.sql", "third"), ("short.sql", ""), ("whole.sql", "first")]
)
def test_a_missing_section_is_refused(caller: str, name: str, section: str) -> None:
    """A file with sections is refused as a whole as well: it is not one statement."""
    with pytest.raises(
        LookupError, match=rf"^{name} beside .*caller.py has no section '{section}'; it has \["
    ):
        statement.load(caller, name, section)


def test_a_section_that_stands_twice_is_refused(caller: str) -> None:
    """It would not be clear which of them is meant."""
    with pytest.raises(ValueError, match=r"^twice.sql beside .* has a section twice: \['first', 'first'\]$"):
        statement.load(caller, "twice.sql", "first")
