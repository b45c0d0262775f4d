"""A forked command behaves like one in a new process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forked import REPOSITORY, Birth, Forked, refuse_what_is_read_at_start
from tests.patience import PATIENCE_SECONDS, eventually
from tests.tiers import long
from tests.worker.processes import command, ran, run, surroundings


def report(*words: str) -> None:
    """Print what a process knows of itself, and end with the given status."""
    sys.stdout.write(f"{words} {Path.cwd()} {os.environ['SEEN']} {input()}\n")
    raise SystemExit(7)


def sleep(started: str) -> None:
    """Print a line, and stay."""
    Path(started).touch()
    time.sleep(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "words", [long(["bench", "--list"]), ["nonsense"], long(["--version"]), long(["status", "--watch"])]
)
def test_a_forked_command_has_the_same_output_and_status(words: list[str]) -> None:
    """Status, output and errors."""
    fresh = subprocess.run(
        command(*words), env=surroundings(None), cwd=REPOSITORY, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    forked = run(*words)

    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (forked.returncode, forked.stdout, forked.stderr)


def test_a_forked_command_gets_its_arguments_and_environment(tmp_path: Path) -> None:
    """Arguments, folder, environment, standard input. It ends with the status that the command returns."""
    done = ran(report, "a", "b", env={"SEEN": "yes"} | surroundings(None), cwd=tmp_path, given="words\n")

    assert (7, f"('a', 'b') {tmp_path} yes words\n", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_is_its_status(tmp_path: Path, number: signal.Signals) -> None:
    """As with subprocess. A later signal reaches no other process with the same pid."""
    nothing, started = Path(os.devnull), tmp_path / "started"
    process = Forked(Birth(surroundings(None), tmp_path, nothing, nothing, nothing), sleep, str(started))
    eventually(started.exists, "it has started")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)

    process.send_signal(number)

    assert -number == process.wait(PATIENCE_SECONDS)
    process.kill()
    assert -number == process.poll()


@pytest.mark.parametrize("name", ["PYTHONHASHSEED", "LD_PRELOAD", "FAKETIME", "LC_ALL"])
def test_a_variable_that_only_a_start_reads_is_refused(name: str) -> None:
    """It would have no effect in a forked process, and the test that sets it would prove nothing."""
    with pytest.raises(AssertionError, match=f"{name}: read when a process starts"):
        refuse_what_is_read_at_start(surroundings(None) | {name: "7"})
