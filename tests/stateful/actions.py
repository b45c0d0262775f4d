"""The possible next actions, their frequencies, and their arguments: a deck of actions.

There is one deck and not a hypothesis rule for each action, because hypothesis omits about half of its rules in each
story, and a story without claims or without recovery finds nothing. Measured over 200 stories of 50 steps: 275
claims with rules, 2,052 with a deck. A number
chooses the task, claim or term; 0 is the newest.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    Failed,
    Fault,
    PutBack,
    Released,
    Snoozed,
)
from tests.stateful.interface import QUEUES, Edit, Order

FAULT = Fault("ValueError", "it failed")
UNKNOWN_TYPE = Fault("UnknownType", "unknown")
STATUSES = [
    "pending",
    "cancelled",
    "scheduled",
    "blocked",
    "claimed",
    "running",
    "completed",
    "dead_letter",
    "done",
]

ORDERS = st.builds(
    Order,
    queue=st.sampled_from(QUEUES),
    key=st.sampled_from([None, None, None, "k"]),
    window=st.sampled_from([60, 3600]),
    delay=st.sampled_from([0, 0, 0, 0, 30]),
    priority=st.sampled_from([50, 25, 75]),
    max_attempts=st.sampled_from([4, 2, 1]),
    timeout=st.sampled_from([60, 0]),
)
ENDS = st.sampled_from(
    [
        *[Completed('"done"')] * 4,
        Failed(FAULT, "failed", 60.0),
        Failed(FAULT, "timeout", 0.0),
        DeadLettered(FAULT, "discarded"),
        Cancelled("not needed"),
        Snoozed(30.0),
        Snoozed(0.0),
        PutBack(UNKNOWN_TYPE, 10.0, 1),
        Released(),
    ]
)
EDITS = st.sampled_from([Edit(status=s) for s in STATUSES] + [Edit(priority=n) for n in (100, 0, 101, -1)])
NAMES = st.sampled_from("abc")
SERVED = st.sampled_from([("default", "bulk"), ("bulk", "default"), ("default",)])
QUEUE = st.sampled_from(QUEUES)
OFTEN = st.sampled_from([True, True, True, False])
SELDOM = st.sampled_from([False, False, False, True])
NUMBERS = st.integers(0, 9)
# Values on both sides of every limit: term 10, margin of the timeout 15, dead_after 30, timeout 60, key and backoff 60.
PASSING = st.sampled_from([1, 5, 10, 15, 29, 30, 31, 60, 75, 76, 300, 3600])


@dataclass(frozen=True, slots=True)
class Action:
    """A method of the machine, and its arguments."""

    name: str
    given: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={self.given[name]!r}' for name in sorted(self.given))})"


# weight, name, strategies of the arguments
DECK: list[tuple[int, str, dict[str, st.SearchStrategy[Any]]]] = [
    # The first one is the simplest for hypothesis: it replaces an unnecessary action by this one, and then removes it.
    (1, "rest", {}),
    (8, "claim", {"name": NAMES, "queues": SERVED, "size": st.integers(1, 3),
                  "then": st.sampled_from(["begin", "begin", "wait", "its answer is lost"])}),
    (7, "enqueue", {"order": ORDERS, "by": st.sampled_from(["enqueue", "insert"])}),
    (1, "roll_back", {"undone": ORDERS, "kept": st.none() | ORDERS}),
    (2, "begin", {"claim": NUMBERS}),
    (6, "finish", {"claim": NUMBERS, "end": ENDS}),
    (1, "finish_all", {"name": NAMES, "ends": st.tuples(ENDS, ENDS, ENDS)}),
    (1, "beat", {"name": NAMES, "beats": OFTEN, "draining": SELDOM}),
    (4, "look", {"names": st.sampled_from(["abc", "a", "b", "c"])}),
    (2, "end", {"name": NAMES, "how": st.sampled_from(["crashes", "deregisters", "is erased"]), "returns": OFTEN}),
    (2, "elect", {"name": NAMES, "does": OFTEN}),
    (1, "resign", {"leadership": NUMBERS}),
    (2, "do_the_duties", {"leadership": NUMBERS}),
    (3, "stop_beating", {"name": NAMES, "seconds": st.sampled_from([31, 30, 76]), "returns": OFTEN}),
    (2, "be_killed_by_a_task", {"name": NAMES, "times": st.integers(1, 3)}),
    (3, "time_passes", {"seconds": PASSING, "beating": st.sampled_from(["abc", "ab", "c", ""]), "sweeps": OFTEN}),
    (1, "clock_is_set_back", {"seconds": PASSING}),
    (2, "update_to_nonsense", {"task": NUMBERS}),
    (2, "update", {"task": NUMBERS, "edit": EDITS}),
    (1, "update_run_at", {"task": NUMBERS, "after": st.sampled_from([-60, 0, 60]),
                          "status": st.sampled_from([None, "pending", "cancelled"])}),
    (1, "update_all", {"queue": QUEUE, "edit": EDITS}),
    (2, "call", {"task": NUMBERS, "by": st.sampled_from(["requeue", "cancel"])}),
    (1, "requeue_where", {"status": st.sampled_from(["dead_letter", "completed", "cancelled"]), "queue": QUEUE,
                          "at_most": st.integers(1, 2)}),
    (1, "delete", {"task": NUMBERS}),
    (1, "set_queue", {"queue": QUEUE, "state": st.sampled_from(["active", "active", "paused", "draining"])}),
]  # fmt: skip

GIVEN = {name: st.builds(Action, st.just(name), st.fixed_dictionaries(given)) for _, name, given in DECK}
ACTIONS = st.sampled_from([name for weight, name, _ in DECK for _ in range(weight)]).flatmap(
    GIVEN.__getitem__
)
