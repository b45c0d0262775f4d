"""schema/freeze.py writes the copies in each revision, and no released revision changes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.schema import compatibility, freeze

FUNCTION = """\
-- Says hello.
CREATE OR REPLACE FUNCTION orchestrator.hello(name text)
RETURNS text
LANGUAGE sql
AS $$ SELECT 'hello' $$;
"""
VIEW = "CREATE OR REPLACE VIEW orchestrator.one AS\nSELECT 1 AS n;\n"
TRIGGER = """\
CREATE OR REPLACE TRIGGER tasks_look
BEFORE UPDATE OF id,
    name ON orchestrator.tasks
FOR EACH ROW EXECUTE FUNCTION orchestrator.look();
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small schema and its first revision, which is released."""
    monkeypatch.setattr(freeze, "SCHEMA", tmp_path)
    monkeypatch.setattr(freeze, "VERSIONS", tmp_path / "versions")
    monkeypatch.setattr(freeze, "RELEASED", tmp_path / "versions" / "released.sha256")
    for kind, name, text in (
        ("functions", "hello", FUNCTION), ("views", "one", VIEW), ("triggers", "tasks_look", TRIGGER),
    ):  # fmt: skip
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{name}.sql").write_text(text)
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "0001_first.py").touch()
    freeze.release()
    return tmp_path


def second(tree: Path) -> dict[str, str]:
    """Make the second revision and return its files."""
    return revision(tree, "0002_next")


def revision(tree: Path, name: str) -> dict[str, str]:
    (tree / "versions" / f"{name}.py").touch()
    freeze.freeze()
    return {path.name: path.read_text() for path in sorted((tree / "versions" / name).glob("*.sql"))}


def edit_it(folder: Path) -> None:
    (folder / "3_views.sql").write_text("SELECT 2;\n")


def add_to_it(folder: Path) -> None:
    (folder / "5_more.sql").write_text("SELECT 2;\n")


def remove_from_it(folder: Path) -> None:
    (folder / "3_views.sql").unlink()


def edit(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))


def test_a_released_revision_never_changes() -> None:
    """A database that has it does not run it again: change schema/ in a revision of its own."""
    assert [] == freeze.edited()
    assert {folder.name for folder in freeze.folders()[:-1]} <= freeze.released_folders()


def test_the_newest_revision_is_up_to_date() -> None:
    """After a change in schema/ run `make render`."""
    *before, newest = freeze.folders()
    files = freeze.rendered(freeze.copies(before), freeze.objects())

    assert files == {
        name: (newest / name).read_text() if (newest / name).exists() else None for name in files
    }


def test_the_code_needs_the_newest_revision() -> None:
    """It would otherwise start on a schema without what the newest revision adds."""
    assert int(freeze.folders()[-1].name[:4]) == compatibility.NEEDED


def test_a_change_needs_the_next_revision(tree: Path) -> None:
    """The sentence says what has changed and what to do; the released revision stays as it is."""
    before = freeze.checksums()
    freeze.freeze()
    edit(tree, "functions/hello.sql", "'hello'", "'hi'")

    with pytest.raises(
        SystemExit, match=r"^functions/hello: not as in revision 0001_first, which is released\. Make"
    ):
        freeze.freeze()

    assert before == freeze.checksums() == freeze.released()


@pytest.mark.parametrize("change", [edit_it, add_to_it, remove_from_it])
def test_an_edit_of_a_released_revision_is_refused(tree: Path, change: Callable[[Path], None]) -> None:
    """Also at the next release, which would otherwise record it."""
    second(tree)
    change(tree / "versions" / "0001_first")

    for act in (freeze.freeze, freeze.release):
        with pytest.raises(SystemExit, match=r"^0001_first/.*: released, and not as it was released"):
            act()


def test_a_later_revision_has_the_changed_objects_alone(tree: Path) -> None:
    """Below 1_tables.sql, which is yours."""
    edit(tree, "functions/hello.sql", "'hello'", "'hi'")

    files = second(tree)

    assert {"1_tables.sql", "2_functions.sql"} == files.keys()
    assert files["2_functions.sql"].endswith(
        "\n\n-- functions/hello.sql\n" + FUNCTION.replace("'hello'", "'hi'")
    )


def test_a_change_that_is_taken_back_leaves_no_copy(tree: Path) -> None:
    """Until its release a revision follows schema/; what is written by hand stays."""
    edit(tree, "functions/hello.sql", "'hello'", "'hi'")
    second(tree)
    edit(tree, "versions/0002_next/1_tables.sql", "2s", "3s")
    edit(tree, "functions/hello.sql", "'hi'", "'hello'")

    files = second(tree)

    assert ["1_tables.sql"] == list(files)
    assert files["1_tables.sql"].endswith("SET LOCAL lock_timeout = '3s';\n")


def test_a_function_with_other_arguments_is_dropped_first(tree: Path) -> None:
    """CREATE OR REPLACE would make a second function. The views that use it are dropped before it and made again."""
    edit(tree, "views/one.sql", "1 AS n", "1 AS n, orchestrator.hello('x') AS greeting")
    (tree / "views" / "two.sql").write_text(
        VIEW.replace(".one", ".two").replace("1 AS n", "n FROM orchestrator.one")
    )
    second(tree)
    freeze.release()
    edit(tree, "functions/hello.sql", "(name text)", "(name text, how text DEFAULT NULL)")

    files = revision(tree, "0003_then")

    assert files["0_drops.sql"].endswith(
        "DROP VIEW orchestrator.two;\nDROP VIEW orchestrator.one;\nDROP FUNCTION orchestrator.hello;\n"
    )
    assert "lock_timeout" in files["0_drops.sql"]
    assert ["-- views/one.sql", "-- views/two.sql"] == re.findall("-- views/.*", files["3_views.sql"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("-- Says hello.", "-- Greets."),
        ("name text", "name text DEFAULT 'a'"),
        ("SELECT 'hello'", "SELECT 'hi'"),
    ],
)
def test_what_can_be_replaced_is_not_dropped(tree: Path, old: str, new: str) -> None:
    """A default can be added and changed. It is not part of the arguments."""
    edit(
        tree, "functions/hello.sql", "name text", "name text DEFAULT 'b'" if "DEFAULT" in new else "name text"
    )
    second(tree)
    freeze.release()
    edit(tree, "functions/hello.sql", "name text DEFAULT 'b'" if "DEFAULT" in new else old, new)

    assert {"1_tables.sql", "2_functions.sql"} == revision(tree, "0003_then").keys()


def test_what_changes_with_its_function_is_dropped_first(tree: Path) -> None:
    """A view with the function that it calls, and a trigger with its own."""
    edit(tree, "views/one.sql", "1 AS n", "orchestrator.hello('x') AS n")
    (tree / "functions" / "look.sql").write_text(FUNCTION.replace(".hello(name text)", ".look()"))
    second(tree)
    freeze.release()
    edit(tree, "functions/hello.sql", "(name text)", "(name text, how text DEFAULT NULL)")
    edit(tree, "views/one.sql", "hello('x')", "hello('x', 'y')")
    (tree / "functions" / "look.sql").rename(tree / "functions" / "watch.sql")
    edit(tree, "functions/watch.sql", ".look(", ".watch(")
    edit(tree, "triggers/tasks_look.sql", "orchestrator.look()", "orchestrator.watch()")

    files = revision(tree, "0003_then")

    assert files["0_drops.sql"].endswith(
        "DROP VIEW orchestrator.one;\nDROP TRIGGER tasks_look ON orchestrator.tasks;\n"
        "DROP FUNCTION orchestrator.look;\nDROP FUNCTION orchestrator.hello;\n"
    )
    assert "-- views/one.sql" in files["3_views.sql"]
    assert "-- triggers/tasks_look.sql" in files["4_triggers.sql"]
    assert {"hello", "look", "watch"} == freeze.ever("functions")


def test_new_and_removed_objects(tree: Path) -> None:
    """The upgrade drops what is gone, and the next revision knows what is there."""
    (tree / "functions" / "hello.sql").rename(tree / "functions" / "greet.sql")
    edit(tree, "functions/greet.sql", "hello(", "greet(")
    (tree / "triggers" / "tasks_look.sql").unlink()

    files = second(tree)

    assert files["0_drops.sql"].endswith(
        "DROP TRIGGER tasks_look ON orchestrator.tasks;\nDROP FUNCTION orchestrator.hello;\n"
    )
    assert "-- functions/greet.sql\n-- Says hello.\nCREATE" in files["2_functions.sql"]
    assert freeze.objects() == freeze.copies(freeze.folders())
    freeze.release()
    assert ["1_tables.sql"] == list(revision(tree, "0003_then"))


def test_a_trigger_on_another_table_is_dropped_first(tree: Path) -> None:
    """Otherwise it would stay on the old table, too."""
    edit(tree, "triggers/tasks_look.sql", "orchestrator.tasks", "orchestrator.types")

    assert second(tree)["0_drops.sql"].endswith("DROP TRIGGER tasks_look ON orchestrator.tasks;\n")


def test_empty_lines_around_an_object_do_not_count(tree: Path) -> None:
    """The copy has none."""
    edit(tree, "views/one.sql", VIEW, f"\n{VIEW.rstrip()}\n\n")

    assert ["1_tables.sql"] == list(second(tree))
