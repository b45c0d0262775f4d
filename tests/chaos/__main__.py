"""`python -m tests.chaos --minutes 30 --seed 1`: a long run, and the checker's report."""

import argparse
import logging
import random
import sys
from pathlib import Path

from tests import servers
from tests.chaos.plan import Plan
from tests.chaos.run import run
from tests.chaos.schedule import schedule


def main() -> int:
    """Run the command line. Return 1 if an invariant was broken."""
    asked = arguments()
    # psycopg logs each connection that a fault ends. That is expected here.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    sys.stdout.write(f"seed {asked.seed}, {asked.minutes:g} minutes\n")
    sys.stdout.flush()
    plan = Plan(
        seed=asked.seed,
        seconds=asked.minutes * 60,
        faults=schedule(asked.seed, per_second=asked.faults_per_second),
        workers=asked.workers,
        producers=asked.producers,
        per_second=asked.tasks_per_second,
        defaults=asked.defaults,
        calm_seconds=600.0 if asked.defaults else 180.0,
    )
    with servers.temporary_directory() as directory:
        try:
            made = run(plan, directory)
        finally:
            if asked.keep:
                keep(directory, asked.keep)
    sys.stdout.write(made.page)
    # The list has more than invariants: not drained, not ended, too few items to check.
    sys.stdout.write(f"broken: {', '.join(made.broken) or 'nothing'}\n")
    return 1 if made.broken else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, help="how long faults occur [5]")
    parser.add_argument(
        "--seed", type=int, default=None, help="the same seed gives the same faults [a new one]"
    )
    parser.add_argument("--faults-per-second", type=float, default=30.0, help="on average [30]")
    parser.add_argument("--tasks-per-second", type=float, default=100.0, help="enqueued, on average [100]")
    parser.add_argument("--workers", type=int, default=4, help="[4]")
    parser.add_argument("--producers", type=int, default=3, help="[3]")
    parser.add_argument("--defaults", action="store_true", help="the product's own timers, not quick ones")
    parser.add_argument("--keep", type=Path, help="copy journals and logs into this folder")
    asked = parser.parse_args()
    if asked.seed is None:
        asked.seed = random.SystemRandom().randrange(10**6)
    return asked


def keep(directory: Path, folder: Path) -> None:
    """Copy the files of a run, except for the server's own."""
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix in (".log", ".jsonl") and "cluster" not in path.parts:
            target = folder / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
