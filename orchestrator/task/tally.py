"""Count outcomes for metrics and statistics, a batch at a time, so that one task costs next to nothing. No object is
made for a task; of each time only its bucket is kept.

Attempts that ran to their own end are timed. Attempts that were given back, or never began, are only counted: they
begin anew, and their wait is counted then.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, attrgetter, sub
from typing import Literal, assert_never, get_args

from orchestrator.task.buckets import EMPTY, Histogram, histogram
from orchestrator.task.outcome import (
    Cancelled,
    Completed,
    DeadLettered,
    End,
    Failed,
    Lost,
    Outcome,
    PutBack,
    Recorded,
    Released,
    Snoozed,
)

# How an attempt ended: one word for each attempt, so that the counts add up.
Word = Literal[
    "completed", "failed", "timed_out", "dead_lettered", "cancelled", "snoozed", "put_back", "released", "lost",
]  # fmt: skip
WORDS: tuple[Word, ...] = get_args(Word)

MEANINGS: dict[Word, str] = {
    "completed": "succeeded",
    "failed": "raised an error; the task is tried again",
    "timed_out": "did not end in time; the task is tried again",
    "dead_lettered": "made the task a dead letter, whatever the reason",
    "cancelled": "reported that the task is no longer wanted",
    "snoozed": "asked to be called again later",
    "put_back": "had a type that the worker does not know",
    "released": "did not begin, or did not end: the task was given back without using up an attempt",
    "lost": "ended with the death of the worker; the task is tried again",
}
"""What the attempt did, for the reference."""

# The columns of the statistics and the label `outcome` are WORDS; error_rate is the share of ERRORS in ENDS.
ERRORS: tuple[Word, ...] = ("failed", "timed_out", "dead_lettered", "lost")
ENDS: tuple[Word, ...] = ("completed", "cancelled", *ERRORS)

# A type that the worker does not know may have any name, and there may be any number of them.
UNKNOWN_TYPE = "(unknown)"

# An attrgetter is a third faster than an attribute in a loop.
queue_of, type_of = attrgetter("queue"), attrgetter("type")
waited_of = attrgetter("waited_seconds")
task_of, end_of = attrgetter("task"), attrgetter("end")
begun_of, ended_of, taken_of = attrgetter("begun_at"), attrgetter("ended_at"), attrgetter("taken_at")


@dataclass(frozen=True, slots=True)
class Tally:
    """How some attempts of one type from one queue ended. `wait`: from the time when they could run to their start;
    `run`: from then to their end; `total`: both."""

    queue: str
    type: str
    counts: Mapping[Word, int]
    wait: Histogram = EMPTY
    run: Histogram = EMPTY
    total: Histogram = EMPTY


def tallies(outcomes: Sequence[Outcome]) -> tuple[Tally, ...]:
    """Count these, by queue and type. Most batches are successes of one type, and need no loop."""
    if not outcomes:
        return ()
    tasks = list(map(task_of, outcomes))
    queues, types = list(map(queue_of, tasks)), list(map(type_of, tasks))
    if (
        types.count(types[0]) == len(types)
        and queues.count(queues[0]) == len(queues)
        and set(map(type, map(end_of, outcomes))) == {Completed}
        and set(map(type, map(begun_of, outcomes))) == {float}
    ):
        return (timed(queues[0], types[0], {"completed": len(tasks)}, outcomes),)
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if type(outcome.end) is Lost:
            continue  # counted where the lease was taken
        kind = UNKNOWN_TYPE if type(outcome.end) is PutBack else outcome.task.type
        groups.setdefault((outcome.task.queue, kind), []).append(outcome)
    return tuple(tally(queue, kind, group) for (queue, kind), group in groups.items())


def tally(queue: str, kind: str, outcomes: Sequence[Outcome]) -> Tally:
    """Count outcomes of one type from one queue, whatever their ends."""
    counts = Counter(word(outcome.end) for outcome in outcomes)
    ran = [o for o in outcomes if o.begun_at is not None and type(o.end) not in (PutBack, Released)]
    if not ran:
        return Tally(queue, kind, counts)
    return timed(queue, kind, counts, ran)


def timed(queue: str, kind: str, counts: Mapping[Word, int], outcomes: Sequence[Outcome]) -> Tally:
    """Return a tally with the times that these waited and ran."""
    begun = list(map(begun_of, outcomes))
    # By the database's clock until the claim, by our own clock from the moment when we got the task.
    waited = map(waited_of, map(task_of, outcomes))
    wait = list(map(add, waited, map(sub, begun, map(taken_of, outcomes))))
    run = list(map(sub, map(ended_of, outcomes), begun))
    return Tally(queue, kind, counts, histogram(wait), histogram(run), histogram(map(add, wait, run)))


def word(end: End) -> Word:
    """Return the word for how an attempt ended."""
    match end:
        case Completed() | Recorded():
            return "completed"
        case Failed(_, kind, _):
            return "timed_out" if kind == "timeout" else "failed"
        case DeadLettered():
            return "dead_lettered"
        case Cancelled():
            return "cancelled"
        case Snoozed():
            return "snoozed"
        case PutBack():
            return "put_back"
        case Released():
            return "released"
        case Lost():
            return "lost"
        case _:
            assert_never(end)
