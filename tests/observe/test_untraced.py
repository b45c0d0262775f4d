"""Where OpenTelemetry is not there, or nobody has loaded it, nothing of it is imported and everything works."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import importlib.abc, sys

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if {hidden} and name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())

from orchestrator import Orchestrator

app = Orchestrator()


@app.task(name="shop.add")
def add(first: int, second: int) -> int:
    return first + second


handles = [add.enqueue(first=1, second=2), *add.enqueue_many([{{"first": 2, "second": 3}}])]
app.run_worker(until_empty=True)
print([handle.result() for handle in handles], [name for name in sys.modules if "opentelemetry" in name])
app.close()
"""


@pytest.mark.parametrize("hidden", [True, False], ids=["without the extra", "not used"])
def test_nothing_of_it_is_imported(database_url: str, *, hidden: bool) -> None:
    """A producer and a worker, from import to end."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(hidden=hidden)],
        env={**os.environ, "ORCHESTRATOR_DATABASE_URL": database_url}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ("[3, 5] []\n", 0) == (run.stdout, run.returncode), run.stderr
