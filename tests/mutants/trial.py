"""One planted fault on trial: its tests run in a tree with the fault, until the first one fails.

caught     a test that could begin failed
survived   all tests passed: a test is missing
hung       no result in time: a test has no deadline
stillborn  the statement or module cannot be parsed: any run would notice such a fault
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from tests.mutants.failure_plugin import INTO
from tests.mutants.mutant import Mutant, planted

Verdict = Literal["caught", "survived", "hung", "stillborn"]

TRIAL_SECONDS = 120.0
# For fixtures to take down their servers.
FAREWELL_SECONDS = 30.0
STILLBORN = re.compile(
    r"^(SyntaxError|IndentationError|NameError|ImportError|ModuleNotFoundError|UndefinedColumn|UndefinedTable"
    r"|UndefinedFunction|AmbiguousColumn|DatatypeMismatch|IndeterminateDatatype|InvalidColumnReference)\b"
)
OPTIONS = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.mutants.failure_plugin", "--tb=short")


class Failure(NamedTuple):
    """A test that failed, and how."""

    test: str
    when: str
    words: str


class Run(NamedTuple):
    """What pytest came to."""

    failures: list[Failure]
    code: int | None  # None: it did not end in time
    output: str


class Trial(NamedTuple):
    """What became of a mutant, and by whom; `words` is what the test said, or pytest if none did."""

    mutant: Mutant
    verdict: Verdict
    tests: tuple[str, ...]
    words: str
    seconds: float


def on_trial(tree: Path, mutant: Mutant, *, first_only: bool = True) -> Trial:
    """Plant it, run its tests, take it out again. What fails must fail twice: a busy machine fails tests, too."""
    began = time.monotonic()
    with planted(tree, mutant):
        run = tested(tree, mutant.suites, first_only=first_only, seconds=TRIAL_SECONDS)
        verdict, words = judged(run)
        found = tuple(failure.test for failure in run.failures if failure.when != "setup")
        if verdict == "caught":
            verdict, words = judged(tested(tree, found, first_only=True, seconds=TRIAL_SECONDS))
    return Trial(mutant, verdict, found, words, time.monotonic() - began)


def judged(run: Run) -> tuple[Verdict, str]:
    """Say what a run of the tests means for the mutant that was there."""
    words = [failure.words for failure in run.failures]
    real = [failure.words for failure in run.failures if failure.when != "setup"]
    if any(map(STILLBORN.match, words)) or (run.code not in (0, None) and not real):
        return "stillborn", words[0] if words else run.output[-2000:]
    if real:
        return "caught", real[0]
    return ("survived", "") if run.code == 0 else ("hung", run.output[-2000:])


def tested(tree: Path, tests: Sequence[str], *, first_only: bool, seconds: float) -> Run:
    """Run these tests of a tree, in this order, until the first one fails or all have been run."""
    with tempfile.TemporaryDirectory() as directory:
        failure_file, output = Path(directory) / "told", Path(directory) / "output"
        failure_file.touch()
        path = os.pathsep.join(filter(None, [str(tree), os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "pytest", *OPTIONS, *(["-x"] if first_only else []), *tests]
        with output.open("wb") as out:
            process = subprocess.Popen(
                command, cwd=tree, env=os.environ | {"PYTHONPATH": path, INTO: str(failure_file)},
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip
            code = ended(process, seconds)
        lines = failure_file.read_text(encoding="utf-8").splitlines()
        return Run([Failure(**json.loads(line)) for line in lines], code, output.read_text(errors="replace"))


def ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Wait for the end; who does not come to one in time is asked to end, and then made to."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    except BaseException:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(FAREWELL_SECONDS)
        raise
    try:
        process.wait(FAREWELL_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return None
