"""Without OpenTelemetry, or if the application has not loaded it, nothing of it is imported and everything works."""

import os
import subprocess
import sys

PROGRAM = """
import importlib.abc, sys

asked = []

class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] == "opentelemetry":
            asked.append(name)
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())

from orchestrator import Orchestrator

app = Orchestrator()


@app.task(name="shop.add")
def add(first: int, second: int) -> int:
    return first + second


handles = [add.enqueue(first=1, second=2), *add.enqueue_many([{"first": 2, "second": 3}])]
app.run_worker(until_empty=True)
print([handle.result() for handle in handles], asked, [name for name in sys.modules if "opentelemetry" in name])
app.close()
"""


def test_nothing_of_it_is_imported(database_url: str) -> None:
    """A producer and a worker, from import to end, without the extra."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "ORCHESTRATOR_DATABASE_URL": database_url}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert ("[3, 5] [] []\n", 0) == (run.stdout, run.returncode), run.stderr
