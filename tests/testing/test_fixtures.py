"""The pytest fixtures in a user's project: a folder, a conftest, and a real run of pytest."""

import os
import subprocess
import sys
from pathlib import Path

SHOP = """
from orchestrator import Orchestrator

app = Orchestrator()


@app.task(name="shop.welcome")
def welcome(user_id: int) -> str:
    return f"hello {user_id}"
"""
CONFTEST = """
import pytest

from orchestrator import testing
from shop import app

pytest_plugins = ["orchestrator.testing.fixtures"]


@pytest.fixture(autouse=True)
def database(orchestrator_database_url):
    with testing.use_database(app, orchestrator_database_url):
        yield orchestrator_database_url
"""
TESTS = """
import pytest

from orchestrator import testing
from shop import app, welcome

seen = set()


@pytest.mark.parametrize("n", range(4))
def test_each_test_has_a_database_of_its_own(n, database):
    assert [] == testing.all_enqueued(app)
    assert database not in seen
    seen.add(database)
    handle = welcome.enqueue(user_id=n)
    testing.assert_enqueued(welcome, user_id=n)
    assert testing.run_tasks(app).completed == 1
    assert handle.result() == f"hello {n}"


def test_the_clock(orchestrator_clock):
    welcome.using(delay="1h").enqueue(user_id=1)
    assert testing.run_tasks(app).total == 0
    orchestrator_clock.advance(hours=1)
    assert testing.run_tasks(app).completed == 1


def test_a_failure():
    testing.assert_enqueued(welcome, user_id=1)
"""


def test_a_users_tests_run(tmp_path: Path) -> None:
    """Five pass, and one fails on purpose with a clear message. A warning would be an error."""
    for name, text in {"shop.py": SHOP, "conftest.py": CONFTEST, "test_shop.py": TESTS}.items():
        (tmp_path / name).write_text(text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ORCHESTRATOR_", "PYTEST_"))}
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error"],
        cwd=tmp_path, env={**environment, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=300,
    )  # fmt: skip

    assert "5 passed" in run.stdout, run.stdout + run.stderr
    assert "1 failed" in run.stdout, run.stdout
    assert "is not enqueued; nothing is." in run.stdout, run.stdout


def test_pytest_is_imported_by_the_fixtures_alone() -> None:
    """An application, and tests without the fixtures, do not need it."""
    program = "import sys, orchestrator.testing; sys.exit('pytest' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode
