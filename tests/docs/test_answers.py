"""The pages about `explain` and `doctor` describe each possible answer, and no other."""

import re

from orchestrator.operate.doctor.examine import CHECKS, name_of
from tests.docs.pages import REPOSITORY

HOWTO = REPOSITORY / "docs" / "howto"


def test_the_page_has_every_check() -> None:
    """In the order in which they are made."""
    page = (HOWTO / "check-the-server.md").read_text()

    assert [name_of(check) for check in CHECKS] == re.findall(r"^\| `([\w ]+)` \|", page, re.MULTILINE)


def test_the_page_has_every_reason() -> None:
    """What the functions say is explained there, and nothing that they do not say."""
    reasons = {"claimed", "running", "completed", "cancelled", "dead_letter"}  # which are the task's status
    for path in (REPOSITORY / "orchestrator" / "schema" / "functions").glob("expla*.sql"):
        reasons |= set(re.findall(r"SELECT\s+'(\w+)',", path.read_text()))
    page = (HOWTO / "why-is-my-task-not-running.md").read_text()

    assert reasons == set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
