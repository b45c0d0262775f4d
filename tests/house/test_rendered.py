"""task/columns.py defines each list that several statements need, and `render` writes it into their files."""

import re
from pathlib import Path

import pytest

from orchestrator.schema import render, tables
from orchestrator.task.columns import KEPT, ONLY_OF_FEATURES

REPOSITORY = Path(__file__).parents[2]
TARGET = re.compile(r"INSERT INTO orchestrator\.tasks_(?:done|dead) \((?P<columns>[^)]*)\)")
COMMENT = re.compile(r"--[^\n]*")
COLUMNS = {column.name for column in tables.tasks.columns}

# Columns that a finished task does not need. Its position follows from other columns. The lane orders only waiting
# tasks. A task gives its permits back when it ends.
LEFT_BEHIND = {"position", "lane", "holds"}
# Columns that only some outcomes keep. A success clears the error of an earlier attempt. A task that the leader ends
# for its timeout keeps no lease (maintain/timeouts.sql gives the reason). Only a success has a result.
NOT_OF_ALL = {"error", "lease", "result"}


def test_the_generated_parts_are_up_to_date() -> None:
    """After a change of task/columns.py run `make render`."""
    stale = [str(path) for path in render.files() if path.read_text() != render.rendered(path.read_text())]

    assert [] == stale


def test_a_part_with_an_unknown_name_is_an_error() -> None:
    """Otherwise a part with a wrong marker would silently stay old."""
    with pytest.raises(KeyError, match="keept"):
        render.rendered("-- generated: keept of t\n-- end\n")


def test_a_list_is_replaced() -> None:
    """The new list has the indentation of its marker."""
    opening, closing = "SELECT\n    -- generated: defaulted columns of t\n", "    -- end\n    t.id\n"

    anew = render.rendered(f"{opening}    nothing\n{closing}")

    assert f"{opening}    t.priority, t.max_attempts, t.timeout,\n{closing}" == anew


def test_every_end_of_a_task_keeps_every_column() -> None:
    """A new column is in KEPT, or in this file with the reason why a finished task does not keep it."""
    ends = {}
    for path in sorted((REPOSITORY / "orchestrator").rglob("*.sql")):
        if path.is_relative_to(REPOSITORY / "orchestrator" / "bench"):
            continue
        for n, target in enumerate(TARGET.finditer(path.read_text())):
            names = {name.strip() for name in COMMENT.sub("", target["columns"]).split(",")}
            ends[f"{path.name} {n}"] = COLUMNS - names - LEFT_BEHIND - NOT_OF_ALL

    assert {"complete.sql 0": set(ONLY_OF_FEATURES)} == {
        name: missing for name, missing in ends.items() if missing
    }
    assert 6 == len(ends)


def test_each_kept_name_is_a_column() -> None:
    """Each list names only existing columns."""
    assert set(KEPT) <= COLUMNS
    assert set(KEPT) >= ONLY_OF_FEATURES
