"""How long a failed task waits for its next attempt: longer each time, to a cap, never in step with others.

The wait after the n-th failure is base × factorⁿ⁻¹, at most the cap, then moved by ± jitter: tasks that
failed together (their API was down) must not all return together. The jitter comes last, so that it spreads
capped waits too; the longest wait is therefore cap × (1 + jitter).
"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """1 s, 2 s, 4 s … 300 s, ± 10 %. With the default four attempts a task has waited some 7 s in all."""

    base_seconds: float = 1.0
    factor: float = 2.0
    cap_seconds: float = 300.0
    jitter: float = 0.1

    def __post_init__(self) -> None:
        """List all faults together, as settings do. (NaN fails every comparison, so it is refused too.)"""
        faults = [sentence for sound, sentence in self._rules() if not sound]
        if faults:
            raise ValueError("; ".join(faults))

    def _rules(self) -> list[tuple[bool, str]]:
        base, factor, cap, jitter = self.base_seconds, self.factor, self.cap_seconds, self.jitter
        return [
            (0 <= base < math.inf, f"base_seconds must be finite and not negative, not {base!r}"),
            (1 <= factor < math.inf, f"factor must be at least 1 (waits never shrink), not {factor!r}"),
            (base <= cap < math.inf, f"cap_seconds must be finite and at least base_seconds, not {cap!r}"),
            (0 <= jitter <= 1, f"jitter must lie between 0 and 1 (a share of the wait), not {jitter!r}"),
        ]


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
