"""Lists that several statements need are written once, in task/columns.py, and rendered from there."""

import re
from pathlib import Path

import pytest

from orchestrator.schema import render, tables
from orchestrator.task.columns import KEPT, ONLY_OF_GUESTS

REPOSITORY = Path(__file__).parents[2]
TARGET = re.compile(r"INSERT INTO orchestrator\.tasks_(?:done|dead) \((?P<columns>[^)]*)\)")
COMMENT = re.compile(r"--[^\n]*")
COLUMNS = {column.name for column in tables.tasks.columns}

# What a finished task has no use for: its place in the order follows from the rest; the lane orders what waits; permits
# are given back as it ends.
LEFT_BEHIND = {"position", "lane", "holds"}
# What some ends have, and others have not: a success clears the error of an earlier attempt; what the leader timed out
# keeps no lease (maintain/timeouts.sql says why); only a success has a result.
NOT_OF_ALL = {"error", "lease", "result"}


def test_the_files_are_what_the_columns_make_of_them() -> None:
    """After a change of task/columns.py: `make render`."""
    stale = [str(path) for path in render.files() if path.read_text() != render.rendered(path.read_text())]

    assert [] == stale


def test_a_part_of_an_unknown_name_is_an_error() -> None:
    """A slip in a marker must not leave its part as it stands."""
    with pytest.raises(KeyError, match="keept"):
        render.rendered("-- generated: keept of t\n-- end\n")


def test_a_list_is_written_anew() -> None:
    """With the indentation of its marker."""
    opening, closing = "SELECT\n    -- generated: defaulted columns of t\n", "    -- end\n    t.id\n"

    anew = render.rendered(f"{opening}    nothing\n{closing}")

    assert f"{opening}    t.priority, t.max_attempts, t.timeout,\n{closing}" == anew


def test_every_end_of_a_task_keeps_every_column() -> None:
    """A column that is new stands in KEPT, or here with the reason why a finished task goes without it."""
    ends = {}
    for path in sorted((REPOSITORY / "orchestrator").rglob("*.sql")):
        if path.is_relative_to(REPOSITORY / "orchestrator" / "bench"):
            continue
        for n, target in enumerate(TARGET.finditer(path.read_text())):
            names = {name.strip() for name in COMMENT.sub("", target["columns"]).split(",")}
            ends[f"{path.name} {n}"] = COLUMNS - names - LEFT_BEHIND - NOT_OF_ALL

    assert {"complete.sql 0": set(ONLY_OF_GUESTS)} == {
        name: missing for name, missing in ends.items() if missing
    }
    assert 6 == len(ends)


def test_each_kept_name_is_a_column() -> None:
    """No list may name a column that does not exist."""
    assert set(KEPT) <= COLUMNS
    assert set(KEPT) >= ONLY_OF_GUESTS
