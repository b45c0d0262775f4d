"""How long a failed task waits for its next attempt: longer each time, up to a cap, and not in step with other tasks.

The wait after the n-th failure is base × factorⁿ⁻¹, at most the cap, then changed by ± jitter: tasks that
failed together (their API was down) must not all return together. The jitter comes last, so that it spreads
capped waits too; so the longest wait is cap × (1 + jitter).
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.task.duration import SECONDS_MAX, shown

# The same bound as in the constraint types_backoff_factor_check.
FACTOR_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Backoff:
    """1 s, 2 s, 4 s … 300 s, ± 10 %. With the default four attempts a task has waited some 7 s in all."""

    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        """Report all faults together, as for settings. (NaN fails every comparison, so it is refused too.)"""
        faults = [sentence for sound, sentence in self._rules() if not sound]
        if faults:
            raise ValueError("; ".join(faults))

    def _rules(self) -> list[tuple[bool, str]]:
        base, factor, cap, jitter = self.base_seconds, self.factor, self.cap_seconds, self.jitter
        return [
            (
                between(0, base, SECONDS_MAX),
                f"base_seconds must lie between 0 and 100 years, not {shown(base)}",
            ),
            (
                between(1, factor, FACTOR_MAX),
                f"factor must lie between 1 (waits never shrink) and {FACTOR_MAX:,}, not {shown(factor)}",
            ),
            (
                between(base if between(0, base, SECONDS_MAX) else 0, cap, SECONDS_MAX),
                f"cap_seconds must lie between base_seconds and 100 years, not {shown(cap)}",
            ),
            (
                between(0, jitter, 1),
                f"jitter must lie between 0 and 1 (a share of the wait), not {shown(jitter)}",
            ),
        ]


def between(lowest: float, value: object, highest: float) -> bool:
    """Tell whether a value is a number within bounds; NaN is not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest


def delay_seconds(
    policy: Backoff,
    attempt: int,
    random: Callable[[], float] = random.random,
) -> float:
    """Return the wait after this attempt failed; the first attempt is 1."""
    if attempt < 1:
        raise ValueError(f"attempts are counted from 1, not {attempt}")
    spread = 1 + policy.jitter * (2 * random() - 1)
    return _grown(policy, attempt - 1) * spread


def _grown(policy: Backoff, times: int) -> float:
    try:
        return min(policy.cap_seconds, policy.base_seconds * float(policy.factor) ** times)
    except OverflowError:  # 2.0**1024 is beyond every float, so beyond the cap (unless nothing grows)
        return policy.cap_seconds if policy.base_seconds else 0.0
