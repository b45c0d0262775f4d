"""Ctrl-C and SIGTERM while a command loads: it ends without a traceback."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS, eventually
from tests.worker.processes import surroundings

# Stands in for a module that takes its time, and says when it is being loaded. In short waits: Python would notice a
# signal that arrives just before a wait only after it.
SLOW = """import pathlib, threading
pathlib.Path(__file__).with_suffix(".loading").touch()
while not threading.Event().wait(0.05): pass
"""
COMMAND = "import sys\nfrom orchestrator_command import main\nmain()\n"


@pytest.mark.parametrize(
    "module", ["msgspec", "click", "slow_jobs"], ids=["the package", "the command", "the application"]
)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)], ids=["SIGINT", "SIGTERM"]
)
def test_a_command_that_loads_ends_without_a_traceback(
    tmp_path: Path, module: str, number: signal.Signals, code: int
) -> None:
    """While it loads its own modules, libraries, and the user's modules."""
    (tmp_path / f"{module}.py").write_text(SLOW)
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "worker", "slow_jobs:app"],
        env=surroundings("postgresql://127.0.0.1:1/x", PYTHONPATH=str(tmp_path)), cwd=REPOSITORY,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        eventually((tmp_path / f"{module}.loading").exists, "it loads")
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()

    assert (code, "") == (process.returncode, output.strip())
