"""`python -m tests.fuzz`: 100,000 calls with any content, with any seed, and the counts.

It runs in rounds, each with its own seed, because hypothesis keeps all its examples in memory. For a failure it prints
the smallest call that fails.
"""

import argparse
import secrets
import sys
import time
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from orchestrator.postgres import embedded_folder
from tests import servers
from tests.fuzz import functions, values
from tests.fuzz.enqueue_ways import EDITS, WAYS
from tests.fuzz.refusals import table
from tests.fuzz.task_run import Shop, opened
from tests.say import say

ROUND = 1000
# Of five rounds, one calls functions, one edits tasks, and three enqueue tasks and run them to their end.
OTHERS = 5
NOTE_CHARACTERS_MAX = 3000


def main() -> int:
    """Run what the command line asks for. Return 1 if a call had a fault."""
    asked = arguments()
    began = time.monotonic()
    with servers.private(embedded_folder.binaries()) as server, opened(server.url()) as shop:
        fine = rounds(shop, asked.calls, asked.seed)
    verdict, seconds = "no fault" if fine else "A FAULT", time.monotonic() - began
    say(f"{verdict} in {asked.calls:,} calls of seed {asked.seed}, {seconds:.0f} s")
    say(table(shop.tally))
    return 0 if fine else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="how many calls [100000]")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="which ones [any]")
    return parser.parse_args()


def rounds(shop: Shop, calls: int, first_seed: int) -> bool:
    """Run all calls, or stop at the first fault. Return whether there was none."""
    say(f"seed {first_seed}")
    others = functions.calls(functions.callable_ones(shop.operator), functions.shelf(shop.operator))
    began = time.monotonic()
    for done in range(0, calls, ROUND):
        count, number = min(ROUND, calls - done), first_seed + done // ROUND
        try:
            match number % OTHERS:
                case 0:
                    tried(count, number, given(others)(shop.call))
                case 1:
                    tried(count, number, given(EDITS, values.endings)(shop.edit))
                case _:
                    tried(count, number, given(WAYS, values.endings)(shop.live))
        except Exception as error:
            notes = [note[:NOTE_CHARACTERS_MAX] for note in getattr(error, "__notes__", ())]
            say("\n".join([f"round {number}: {type(error).__name__}: {error}", *notes]))
            return False
        say(f"{done + count:9,} calls, {time.monotonic() - began:6.0f} s")
    return True


def tried(count: int, number: int, work: Callable[..., Any]) -> None:
    """Let hypothesis make this many calls. It raises the error of the smallest call that fails."""
    limits = settings(
        max_examples=count,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    seed(number)(limits(work))()


if __name__ == "__main__":
    sys.exit(main())
