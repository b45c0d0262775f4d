"""`python -m tests.crashpoints`: a fault at every message of every run, and the results."""

import argparse
import random
import sys
import time
from contextlib import ExitStack

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.crashpoints import all_points
from tests.crashpoints.worker_runs import Lane
from tests.say import say

LANES = 4
# The share of points that may be missed, because a process is faster or slower than in the run that counted them.
# Measured: 32 of 1,241.
MISSED_MAX = 0.05


def main() -> int:
    """Run the command line. Return 1 if there was any violation."""
    asked = arguments()
    begun = time.monotonic()
    with servers.temporary_directory() as directory, ExitStack() as stack:
        server = stack.enter_context(servers.private(embedded_folder.binaries(), migrated=False))
        lanes = [
            stack.enter_context(Lane.opened(server.migrated(f"lane{n}"), directory / f"lane{n}"))
            for n in range(asked.lanes)
        ]
        works, without_faults = all_points.find_points(lanes)
        works = [work for work in works if asked.only in f"{work[0].name}: {work[1]}"]
        if asked.some:
            works = random.Random(asked.seed).sample(works, min(asked.some, len(works)))  # noqa: S311 - no secret
        sys.stdout.write(f"{len(works)} points\n")
        report = all_points.run(lanes, works, say)
    wrong = [*without_faults.wrong, *report.wrong]
    if len(report.missed) > MISSED_MAX * len(works):
        wrong.append(f"{len(report.missed)} of {len(works)} points were not reached: {report.missed[:20]}")
    sys.stdout.write("\n\n".join([*wrong, report.table()]) + f" in {time.monotonic() - begun:.0f} s\n")
    return 1 if wrong else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.crashpoints", description=__doc__)
    parser.add_argument("--lanes", type=int, default=LANES, help=f"how many at a time [{LANES}]")
    parser.add_argument("--some", type=int, default=0, help="only so many points, chosen at random [all]")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--only", default="", help="only those whose names hold this, as in `kill -9 claims`")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
