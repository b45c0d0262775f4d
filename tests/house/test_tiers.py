"""The Makefile lists each folder of tests once, so no run on the oldest server or on any server forgets tests."""

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
LISTS = ("SQL_TESTS", "COMMAND_TESTS", "SERVERLESS_TESTS")


def listed(makefile: str) -> list[str]:
    """Return the folders and files in the Makefile's lists of tests. A file does not count as its folder."""
    text = makefile.replace("\\\n", " ")
    found = [re.search(rf"^{name} := (.*)$", text, re.MULTILINE) for name in LISTS]
    return [word for match in found if match is not None for word in match[1].split()]


def misplaced(tests: Path, makefile: str) -> list[str]:
    """Return the folders that the lists do not name exactly once, and the names in the lists that do not exist."""
    names = listed(makefile)
    folders = {path.parent.name for path in tests.glob("*/test_*.py")}
    return sorted(
        [folder for folder in folders if names.count(folder) != 1]
        + [name for name in names if not (tests / name).exists()]
    )


def test_each_folder_of_tests_is_in_one_list() -> None:
    """A folder that is in no list runs on the embedded server only."""
    assert [] == misplaced(REPOSITORY / "tests", (REPOSITORY / "Makefile").read_text())


def test_a_misplaced_folder_is_found(tmp_path: Path) -> None:
    """One folder is in two lists, one is in none, and one does not exist."""
    for name in ("twice", "none", "once"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "test_it.py").touch()
    makefile = (
        "SQL_TESTS := twice once \\\n\tgone\nCOMMAND_TESTS := twice\nSERVERLESS_TESTS := once/test_it.py\n"
    )

    assert ["gone", "none", "twice"] == misplaced(tmp_path, makefile)
