"""`python -m tests.mutants`: try every planted fault, and report which test found which.

A test that finds a fault runs again at the end without the fault, and must pass: a test that always fails finds
nothing.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, SimpleQueue

from tests.mutants.faults import MUTANTS
from tests.mutants.mutant import REPOSITORY, Mutant, copy_of, mutated
from tests.mutants.trial import Trial, on_trial, tested
from tests.say import say

CLEAN_SECONDS = 900.0
CLEAN_TRIES = 2


def main() -> int:
    """Do what the command line asks for; 1 when a mutant was not caught, or not for certain."""
    asked = arguments()
    chosen = [one for one in MUTANTS if not asked.names or any(word in one.name for word in asked.names)]
    if asked.list:
        for one in chosen:
            say(f"{one.name}\n    {one.why}\n    {one.edits[0].file}: {', '.join(one.suites)}")
        return 0
    for one in chosen:
        mutated(REPOSITORY, one)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        trees = [copy_of(REPOSITORY, Path(directory) / str(n)) for n in range(asked.jobs)]
        trials = all_on_trial(trees, chosen, first_only=not asked.all)
        unproven = failing_anyway(trees[0], trials)
    say(summary(trials, unproven, time.monotonic() - began))
    return 0 if not unproven and all(trial.verdict == "caught" for trial in trials) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="only the mutants whose names hold one of these words")
    parser.add_argument("--list", action="store_true", help="tell what there is, and run nothing")
    parser.add_argument("--all", action="store_true", help="do not stop a trial at its first failure")
    parser.add_argument("--jobs", type=int, default=2, help="how many trials at once [2]")
    return parser.parse_args()


def all_on_trial(trees: Sequence[Path], mutants: Sequence[Mutant], *, first_only: bool) -> list[Trial]:
    """Try all of them, one after another in each tree, and tell of each as it ends."""
    waiting: SimpleQueue[Mutant] = SimpleQueue()
    for one in mutants:
        waiting.put(one)
    trials: list[Trial] = []

    def work(tree: Path) -> None:
        # Ends: each round takes one away.
        while True:
            try:
                one = waiting.get_nowait()
            except Empty:
                return
            trials.append(trial := on_trial(tree, one, first_only=first_only))
            say(row(trial))

    threads = [threading.Thread(target=work, args=[tree], daemon=True) for tree in trees]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return trials


def failing_anyway(tree: Path, trials: Sequence[Trial]) -> list[str]:
    """Run the tests that caught something in a tree without a fault; name those that do not pass there. Twice, where it
    needs to be: one that a busy machine failed is alone the second time."""
    tests = sorted({test for trial in trials for test in trial.tests})
    for _ in range(CLEAN_TRIES):
        if not tests:
            break
        run = tested(tree, tests, first_only=False, seconds=CLEAN_SECONDS)
        if run.code not in (0, 1):
            return ["(no verdict)"]
        tests = sorted({failure.test for failure in run.failures})
    return tests


def row(trial: Trial) -> str:
    """Return one line of the table, and what was said where nobody caught it."""
    by = ", ".join(test.removeprefix("tests/") for test in trial.tests) or "-"
    line = f"{trial.mutant.name:44} {trial.verdict:9} {trial.seconds:5.1f} s  {by}"
    said = trial.words.strip().splitlines() or [""]
    return f"{line}\n    {said[0][:160]}" if trial.verdict == "caught" else "\n    ".join([line, *said[-30:]])


def summary(trials: Sequence[Trial], unproven: Sequence[str], seconds: float) -> str:
    """Say how many were caught, and by which suites."""
    caught = [trial for trial in trials if trial.verdict == "caught"]
    suites = Counter(suite for trial in caught for suite in {test.split("/")[1] for test in trial.tests})
    lines = [f"\n{len(caught)} of {len(trials)} caught, in {seconds:.0f} s"]
    lines += [f"  {suite:12} {count:3}" for suite, count in suites.most_common()]
    lines += [f"NOT CAUGHT: {trial.mutant.name} ({trial.verdict})" for trial in trials if trial not in caught]
    lines += [f"FAILS WITHOUT ANY FAULT: {test}" for test in unproven]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
