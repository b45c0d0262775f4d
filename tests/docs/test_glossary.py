"""The glossary stays short: a reader learns all of it in one go."""

import re

from tests.docs.pages import REPOSITORY

WORDS_MAX = 40


def test_the_glossary_has_few_words() -> None:
    """A further word needs one that goes."""
    page = (REPOSITORY / "docs/explanation/glossary.md").read_text(encoding="utf-8")

    words = re.findall(r"^\*\*(.+?)\*\*", page, re.MULTILINE)

    assert len(words) == len(set(words)) == len(re.findall(r"^\S.*\n(?:\S.*\n)*", page, re.MULTILINE)) - 1
    assert 30 < len(words) <= WORDS_MAX
