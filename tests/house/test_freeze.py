"""schema/freeze.py writes the copies in each revision, and no released revision changes."""

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
BEFORE UPDATE OF id, name ON orchestrator.tasks
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
    (tree / "versions" / "0002_next.py").touch()
    freeze.freeze()
    return {path.name: path.read_text() for path in (tree / "versions" / "0002_next").glob("*.sql")}


def edit(tree: Path, file: str, old: str, new: str) -> None:
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))


def test_a_released_revision_never_changes() -> None:
    """A database that has it does not run it again: change schema/ in a revision of its own."""
    now = freeze.checksums()

    assert freeze.released() == {name: now.get(name) for name in freeze.released()}
    for folder in freeze.folders()[:-1]:
        assert folder.name in freeze.released_folders()


def test_the_newest_revision_has_the_present_objects() -> None:
    """After a change in schema/ run `make render`."""
    assert [] == list(freeze.changed(freeze.copies(freeze.folders()), freeze.objects()))


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


def test_a_later_revision_has_the_changed_objects_alone(tree: Path) -> None:
    """Its downgrade has the same objects as they were."""
    edit(tree, "functions/hello.sql", "'hello'", "'hi'")

    files = second(tree)

    assert {
        "1_tables.sql",
        "2_functions.sql",
        "downgrade_1_objects.sql",
        "downgrade_2_tables.sql",
    } == files.keys()
    assert files["2_functions.sql"].endswith(
        "\n\n-- functions/hello.sql\n" + FUNCTION.replace("'hello'", "'hi'")
    )
    assert files["downgrade_1_objects.sql"].endswith("\n\n-- functions/hello.sql\n" + FUNCTION)


def test_a_change_that_is_taken_back_leaves_no_copy(tree: Path) -> None:
    """Until its release a revision follows schema/; what is written by hand stays."""
    edit(tree, "functions/hello.sql", "'hello'", "'hi'")
    second(tree)
    edit(tree, "versions/0002_next/1_tables.sql", "2s", "3s")
    edit(tree, "functions/hello.sql", "'hi'", "'hello'")

    files = second(tree)

    assert {"1_tables.sql", "downgrade_2_tables.sql"} == files.keys()
    assert files["1_tables.sql"].endswith("SET LOCAL lock_timeout = '3s';\n")


def test_a_function_with_other_arguments_is_dropped_first(tree: Path) -> None:
    """CREATE OR REPLACE would make a second function."""
    edit(tree, "functions/hello.sql", "(name text)", "(name text, how text DEFAULT NULL)")
    edit(tree, "views/one.sql", "1 AS n", "1 AS n, 2 AS m")

    files = second(tree)

    assert "-- functions/hello.sql\nDROP FUNCTION orchestrator.hello;\n-- Says" in files["2_functions.sql"]
    assert (
        "-- functions/hello.sql\nDROP FUNCTION orchestrator.hello;\n-- Says"
        in files["downgrade_1_objects.sql"]
    )
    assert "DROP" not in files["3_views.sql"]
    # A column of a view goes only with the view.
    assert "-- views/one.sql\nDROP VIEW orchestrator.one;\nCREATE" in files["downgrade_1_objects.sql"]


def test_new_and_removed_objects(tree: Path) -> None:
    """The upgrade drops what is gone, the downgrade what is new; the next revision knows what is there."""
    (tree / "functions" / "hello.sql").rename(tree / "functions" / "greet.sql")
    edit(tree, "functions/greet.sql", "hello(", "greet(")
    (tree / "triggers" / "tasks_look.sql").unlink()

    files = second(tree)

    assert "-- functions/hello.sql\nDROP FUNCTION orchestrator.hello;\n" in files["2_functions.sql"]
    assert "-- functions/greet.sql\n-- Says hello.\nCREATE" in files["2_functions.sql"]
    assert files["4_triggers.sql"].endswith("DROP TRIGGER tasks_look ON orchestrator.tasks;\n")
    assert "-- functions/greet.sql\nDROP FUNCTION orchestrator.greet;\n" in files["downgrade_1_objects.sql"]
    assert freeze.objects() == freeze.copies(freeze.folders())
    freeze.release()
    (tree / "versions" / "0003_then.py").touch()
    freeze.freeze()
    assert ["1_tables.sql", "downgrade_2_tables.sql"] == sorted(
        path.name for path in (tree / "versions" / "0003_then").iterdir()
    )
