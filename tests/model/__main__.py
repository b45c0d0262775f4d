"""The long searches and the table of variants: `python -m tests.model`. It needs a few minutes of one core and a few
gigabytes of memory."""

import sys

from tests.model.explore import Explorer, Walk
from tests.model.protocol import Queue
from tests.model.rules import Bounds
from tests.model.variants import TRIO, VARIANTS, WORLD, walked
from tests.say import say

LONG = {
    "two workers, one task of two attempts": (Bounds(), False),
    "two workers, one task of one attempt, and its end": (WORLD, True),
    "two workers, one task of two attempts, a term of two ticks": (
        Bounds(housekeeping=False, term=2, dead_after=3, losses_of_replies=False),
        False,
    ),
    "two workers, two tasks, no kill, no lost reply": (
        Bounds(
            tasks=2, attempts_max=1, losses_max=1, kills=False, housekeeping=False, losses_of_replies=False
        ),
        False,
    ),
    "three workers that lead and do not claim": (TRIO, True),
    "three workers, one task of one attempt, no kill, no lost reply": (
        Bounds(
            workers=3, attempts_max=1, losses_max=1, kills=False, housekeeping=False, losses_of_replies=False
        ),
        False,
    ),
}


def main() -> None:
    """Walk, and print the results."""
    say(f"{'correct protocol':70} {'states':>12} {'steps':>12} {'depth':>6} {'CPU s':>6}")
    for name, (bounds, to_the_goal) in LONG.items():
        walk = Explorer(Queue(bounds)).run(to_the_goal=to_the_goal)
        say(
            f"{name:70} {walk.states:12,} {walk.edges:12,} {walk.depth:6} {walk.seconds:6.1f}  {verdict(walk)}"
        )
    say(f"\n{'variant':42} {'states':>9} {'length':>6}  caught by")
    for variant in VARIANTS:
        walk = walked(variant)
        length = len(walk.found.trace) if walk.found else 0
        say(f"{variant.name:42} {walk.states:9,} {length:6}  {verdict(walk).splitlines()[0]}")
        if "-v" in sys.argv and walk.found:
            say(f"{walk.found}\n")


def verdict(walk: Walk) -> str:
    if walk.found is not None:
        return f"{walk.found.invariant}\n{walk.found}"
    return "no invariant is broken" if walk.finished else "not finished"


if __name__ == "__main__":
    main()
