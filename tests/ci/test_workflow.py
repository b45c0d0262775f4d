"""Each command of .github/workflows: its targets, files, syntax and matrix are those of this repository.

GitHub's runners are not here, so what they have installed, and what the actions do, is not proved.
"""

import re
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.schema import migrate
from tests import npm_postgres
from tests.forked import REPOSITORY

WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXPRESSION = re.compile(r"\$\{\{\s*matrix\.(\w+)\s*\}\}")
PINNED = re.compile(r"uses: [\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
# The newest that is supported; the embedded server is one of it.
NEWEST_SERVER = 18


def jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def cells(job: dict[str, Any]) -> list[dict[str, str]]:
    """Return every combination of a job's matrix; one without a matrix has one."""
    matrix = job.get("strategy", {}).get("matrix", {})
    return [dict(zip(matrix, values, strict=True)) for values in product(*matrix.values())]


def filled(text: str, cell: dict[str, str]) -> str:
    """Return a text with the values of a cell; a name that the matrix does not have is a KeyError."""
    return EXPRESSION.sub(lambda found: cell[found[1]], text)


def commands() -> Iterator[str]:
    """Yield each command line of each job, with each cell of its matrix."""
    for workflow in WORKFLOWS:
        for job in jobs(workflow).values():
            for step, cell in product(job["steps"], cells(job)):
                yield from (filled(line, cell) for line in step.get("run", "").splitlines())


def servers() -> Iterator[str]:
    """Yield each server that the tests are told to use."""
    for workflow in WORKFLOWS:
        for job in jobs(workflow).values():
            for step, cell in product(job["steps"], cells(job)):
                if "ORCHESTRATOR_TEST_SERVER" in step.get("env", {}):
                    yield filled(step["env"]["ORCHESTRATOR_TEST_SERVER"], cell)


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_a_command_can_run(command: str) -> None:
    """It is bash, its make targets exist with these variables, and its scripts are there and are bash too."""
    assert "${{" not in command
    subprocess.run(["bash", "-n", "-c", command], check=True)
    words = command.split()
    if words[0] == "make":
        subprocess.run(
            ["make", "--dry-run", *words[1:]], cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL
        )
    elif words[0] == "bash":
        subprocess.run(["bash", "-n", REPOSITORY / words[1]], check=True)
    else:
        assert "apt-get" in words, f"{words[0]}: say here how to check it"


def test_the_servers_are_those_that_are_supported() -> None:
    """An image of each PostgreSQL from the oldest to the newest; at night those, too, that need no Docker."""
    expected = {f"docker:postgres:{number}" for number in range(migrate.OLDEST_SERVER, NEWEST_SERVER + 1)}
    expected |= {"embedded", *(f"npm-{number}" for number in npm_postgres.RELEASES)}

    assert expected == set(servers())


def test_the_pythons_are_those_that_the_package_names() -> None:
    """The matrix has each Python of the classifiers, and the oldest is the one that the package requires."""
    named = {
        found[1]
        for classifier in PROJECT["classifiers"]
        if (found := re.search(r":: Python :: (\d\.\d+)$", classifier))
    }
    used = {
        cell["python"]
        for path in WORKFLOWS
        for job in jobs(path).values()
        for cell in cells(job)
        if "python" in cell
    }

    assert named == used
    assert PROJECT["requires-python"] == ">=" + min(used, key=lambda name: int(name.partition(".")[2]))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned(workflow: Path) -> None:
    """By hash, with the version in a comment: a tag can be moved to other code."""
    uses = [line.strip(" -") for line in workflow.read_text().splitlines() if "uses:" in line]

    assert uses
    assert [] == [line for line in uses if not PINNED.match(line)]
