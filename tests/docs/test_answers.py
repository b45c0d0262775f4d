"""The pages about `explain` and `doctor` describe each possible answer, and no other."""

import re

from orchestrator.operate.doctor.examine import CHECKS, name_of
from tests.docs.pages import REPOSITORY

HOWTO = REPOSITORY / "docs" / "howto"


def test_the_page_has_every_check() -> None:
    """The page has the checks in the order in which `doctor` makes them."""
    page = (HOWTO / "check-the-server.md").read_text()

    assert [name_of(check) for check in CHECKS] == re.findall(r"^\| `([\w ]+)` \|", page, re.MULTILINE)


def test_the_page_has_every_reason() -> None:
    """The page lists exactly the reasons that the functions of `explain` return."""
    reasons = {"claimed", "running", "completed", "cancelled", "dead_letter"}  # statuses of a task
    for path in (REPOSITORY / "orchestrator" / "schema" / "functions").glob("expla*.sql"):
        reasons |= set(re.findall(r"SELECT\s+'(\w+)',", path.read_text()))
    page = (HOWTO / "why-is-my-task-not-running.md").read_text()

    assert reasons == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
