"""The list of planted faults is in order, and a trial recognises a fault that the tests find."""

import ast
from pathlib import Path

import pytest

from tests.mutants.faults import MUTANTS
from tests.mutants.mutant import REPOSITORY, Mutant, NotThere, copy_of, mutant, mutated, planted
from tests.mutants.trial import Failure, Run, judged, on_trial
from tests.tiers import long

# What the project has promised to plant.
LEAST = 25


@pytest.mark.parametrize("one", MUTANTS, ids=[one.name for one in MUTANTS])
def test_every_planted_fault_has_its_place(one: Mutant) -> None:
    """The text it replaces stands there, once; and what schema/ defines is changed in the revision too."""
    changed = mutated(REPOSITORY, one)

    defined = {edit.file for edit in one.edits if edit.file.startswith("orchestrator/schema/")}
    assert len({edit.file for edit in one.edits}) + len(defined) == len(changed)


def test_every_planted_fault_has_its_reason_and_its_tests() -> None:
    """And a name of its own, and tests that are there."""
    assert LEAST <= len(MUTANTS) == len({one.name for one in MUTANTS})
    for one in MUTANTS:
        assert one.why.endswith(".")
        for file, _, test in (suite.partition("::") for suite in one.suites):
            assert (REPOSITORY / file).exists(), one.name
            assert not test or f"def {test}(" in (REPOSITORY / file).read_text(), one.name


def is_short(suite: str) -> bool:
    """Tell whether a test, or any test of a file, is in the short tier."""
    file, _, test = suite.partition("::")
    short = {
        node.name
        for node in ast.parse((REPOSITORY / file).read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and "pytest.mark.long" not in map(ast.unparse, node.decorator_list)
    }
    return test in short if test else bool(short)


def test_every_planted_fault_is_looked_for_by_short_tests() -> None:
    """A trial runs the short tier alone: what only the long tier finds is found after the merge."""
    assert [] == [(one.name, suite) for one in MUTANTS for suite in one.suites if not is_short(suite)]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one function and one test, with what a trial needs of ours."""
    for name in ("tests/mutants", "orchestrator"):
        copy_of(REPOSITORY / name, tmp_path / name)
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "tests" / "__init__.py").touch()
    (tmp_path / "half.py").write_text("def half(n):\n    return n // 2\n")
    (tmp_path / "tests" / "test_half.py").write_text(
        "from half import half\n\n\ndef test_even():\n    assert 4 == half(8)\n"
        "\n\ndef test_odd(request):\n    assert 2 == half(5)\n"
    )
    return tmp_path


def fault(text: str, replacement: str) -> Mutant:
    return mutant("half", "half.py", text, replacement, why="Nobody has half.", suites=("test_half.py",))


def test_a_fault_that_a_test_finds_is_caught_by_the_first_that_does(tree: Path) -> None:
    """And the tree is as it was before."""
    trial = on_trial(tree, fault("n // 2", "n // 3"))

    assert ("caught", ("tests/test_half.py::test_even",)) == (trial.verdict, trial.tests)
    assert "def half(n):\n    return n // 2\n" == (tree / "half.py").read_text()


def test_a_fault_that_no_test_finds_survives(tree: Path) -> None:
    """However wrong it is."""
    trial = on_trial(tree, fault("n // 2", "n // 2 if n < 100 else 0"))

    assert ("survived", ()) == (trial.verdict, trial.tests)


@pytest.mark.parametrize("broken", ["m // 2", long("n // "), long("n // __import__('nothing').two")])
def test_code_that_cannot_run_is_no_fault(tree: Path, broken: str) -> None:
    """Any test would catch it, so it says nothing about the tests."""
    assert "stillborn" == on_trial(tree, fault("n // 2", broken)).verdict


def test_only_tests_that_began_decide() -> None:
    """A failed fixture is no failed test, and a run that does not end has no verdict."""
    failure = Failure("tests/test_half.py::test_even", "call", "AssertionError: assert 4 == 2")
    setup = failure._replace(when="setup")

    runs = [Run([failure], 1, ""), Run([setup], 1, ""), Run([], 0, ""), Run([], None, ""), Run([], 4, "")]
    assert ["caught", "stillborn", "survived", "hung", "stillborn"] == [judged(run)[0] for run in runs]


def test_a_text_that_is_gone_or_stands_twice_is_refused(tree: Path) -> None:
    """The code has moved on, and the mutant with it, or nobody would know what is planted."""
    for text in ("n // 4", "n"):
        with pytest.raises(NotThere, match=r"half: half\.py holds"), planted(tree, fault(text, "0")):
            pass
    with pytest.raises(NotThere):
        mutated(tree, fault("n // 2", "n // 2"))


def test_a_fault_in_the_schema_is_planted_in_its_revision(tmp_path: Path) -> None:
    """Otherwise the database would be made without the fault. The other functions stay the same."""
    function = tmp_path / "orchestrator" / "schema" / "functions" / "two.sql"
    revision = tmp_path / "migrations" / "versions" / "0001_first" / "2_functions.sql"
    for path, text in ((function, "-- Two.\nSELECT 2"), (revision, "-- Two.\nSELECT 2\n-- Too.\nSELECT 2")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    wrong = mutant(
        "two", "orchestrator/schema/functions/two.sql", "SELECT 2", "SELECT 3", why="No.", suites=()
    )

    with planted(tmp_path, wrong):
        assert "-- Two.\nSELECT 3\n-- Too.\nSELECT 2" == revision.read_text()

    assert "-- Two.\nSELECT 2\n-- Too.\nSELECT 2" == revision.read_text()
