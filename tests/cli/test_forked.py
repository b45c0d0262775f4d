"""A command that the tests fork does what a fresh one does."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.forked import REPOSITORY, Birth, Forked, refuse_what_is_read_at_start
from tests.patience import PATIENCE_SECONDS
from tests.tiers import long
from tests.worker.processes import command, eventually, ran, run, surroundings


def report(*words: str) -> None:
    """Print what a process sees of itself, and end as told."""
    sys.stdout.write(f"{words} {Path.cwd()} {os.environ['SEEN']} {input()}\n")
    raise SystemExit(7)


def sleep(started: str) -> None:
    """Say that it is there, and stay."""
    Path(started).touch()
    time.sleep(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "words", [["bench", "--list"], ["nonsense"], long(["--version"]), long(["status", "--watch"])]
)
def test_it_prints_and_ends_alike(words: list[str]) -> None:
    """Status, output and errors."""
    fresh = subprocess.run(
        command(*words), env=surroundings(None), cwd=REPOSITORY, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    forked = run(*words)

    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (forked.returncode, forked.stdout, forked.stderr)


def test_it_takes_over_what_it_is_given(tmp_path: Path) -> None:
    """Words, folder, environment, standard input; it ends with the status that it asks for."""
    done = ran(report, "a", "b", env={"SEEN": "yes"} | surroundings(None), cwd=tmp_path, given="words\n")

    assert (7, f"('a', 'b') {tmp_path} yes words\n", "") == (done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_is_its_status(tmp_path: Path, number: signal.Signals) -> None:
    """As with subprocess; and another signal afterwards is none to a stranger of the same number."""
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
def test_what_is_read_at_the_start_is_refused(name: str) -> None:
    """It would have no effect, and the test that sets it would prove nothing."""
    with pytest.raises(AssertionError, match=f"{name}: read when a process starts"):
        refuse_what_is_read_at_start(surroundings(None) | {name: "7"})
