"""Do something to many tasks, for example to a million dead letters, while workers go on working.

A walk goes through the ids, from the lowest to the highest id at its beginning. Each step is one short transaction for
at most a thousand tasks. It reads a range of ids; the range grows or shrinks with the duration of the last step, so a
step takes equally long whether few or all tasks meet the filter. The walk collects nothing: it remembers only its
position. If workers are at work, it rests after each step, in proportion to the step's duration, and so leaves them
their share of the server.

The walk is resumable: each step is done whole or not at all, and a task that is done no longer meets the condition (a
requeued task is no dead letter). A task that has run and failed again meanwhile meets it again. So the walk takes only
tasks that had ended when it began (`pinned`), and a caller that resumes it passes that moment again.

The walk skips tasks that another transaction has locked, and tries them again at the end, a few times; then it reports
those that are still locked.

Lock order: tasks by id, within a step; nothing is held between steps.
"""

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import psycopg
from psycopg.errors import QueryCanceled

from orchestrator.errors import DatabaseUnavailable
from orchestrator.operate import find, search
from orchestrator.operate.filters import Search
from orchestrator.operate.search import Action
from orchestrator.postgres import statement, transient_errors
from orchestrator.task.status import FINISHED, LEASED, Status

BEGIN = statement.load(__file__, "bulk.sql", "begin")
WORKING = statement.load(__file__, "bulk.sql", "workers_at_work")

BATCH = 1_000
# The ids that the first step reads, and the duration of a step after which the next one reads fewer.
STRETCH = 10_000
STEP_SECONDS = 0.5
# How long the walk rests beside workers, as a multiple of the last step: it uses a fifth of one backend.
REST = 4.0
# How often a step is tried if another transaction's lock stops it, and how often the walk returns to locked tasks.
TRIES = 10
ROUNDS = 3
WAIT_SECONDS = 0.1

WAITING = frozenset(Status) - FINISHED - LEASED


class InTheWay(DatabaseUnavailable):
    """Another transaction's lock stopped the act; nothing was changed, and the connection is usable."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The statuses of tasks that an act takes, and those that it takes if the caller names no status."""

    takes: frozenset[Status]
    usually: frozenset[Status]


RULES: Mapping[Action, Rule] = MappingProxyType(
    {
        Action.REQUEUE: Rule(frozenset(Status) - {Status.PENDING}, frozenset({Status.DEAD_LETTER})),
        # A running task is fenced off, and its work may be half done: the caller must ask for it.
        Action.CANCEL: Rule(frozenset(Status) - FINISHED, WAITING),
        # A deleted task cannot be restored.
        Action.DELETE: Rule(frozenset(Status), frozenset()),
        Action.PRIORITY: Rule(WAITING, WAITING),
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """The progress of a walk: tasks done so far, and tasks that another transaction has locked."""

    done: int
    locked: int


@dataclass(slots=True)
class Walk:
    """The position of a walk, and its counts."""

    after: int
    upto: int
    stretch: int = STRETCH
    done: int = 0
    locked: int = 0
    first_locked: int | None = None
    last_locked: int | None = None


def meant(action: Action, wanted: Search) -> Search:
    """Return the search with the statuses that the act takes; ValueError names one that it does not take."""
    rule = RULES[action]
    if not wanted.statuses:
        if not rule.usually:
            raise ValueError("say the status of those that you mean, for example --status dead_letter")
        return replace(wanted, statuses=tuple(each for each in Status if each in rule.usually))
    if refused := [each for each in wanted.statuses if each not in rule.takes]:
        raise ValueError(f"{advice(action, refused[0])}; leave --status {refused[0]} out")
    return wanted


def advice(action: Action, status: Status) -> str:
    """Return why an act does not take tasks of a status, and what to do instead."""
    match action:
        case Action.REQUEUE:
            return "a pending task is ready to run already"
        case Action.CANCEL if status is Status.DEAD_LETTER:
            return "a dead letter will not run again by itself; delete it if it is not wanted"
        case Action.CANCEL:
            return f"a {status} task has ended already; to run it again, requeue it"
        case _ if status in LEASED:
            return f"a {status} task has its worker already, and its priority changes nothing"
        case _:
            return f"a {status} task has ended, and its priority changes nothing; to run it again, requeue it"


def pinned(connection: psycopg.Connection[Any], wanted: Search) -> Search:
    """Return the search for tasks that had ended, or been created, by now."""
    now = find.now(connection)
    return replace(wanted, before=min(wanted.before or now, now))


def walk(
    connection: psycopg.Connection[Any],
    action: Action,
    wanted: Search,
    *,
    priority: int | None = None,
    most: int | None = None,
    reason: str | None = None,
) -> Generator[Step, None, None]:
    """Do the act step by step, and yield the progress after each step."""
    first, last = find.span(connection, wanted)
    state = Walk(first, last)
    for again in range(ROUNDS):
        # Ends: each step goes on behind the last one, or takes a shorter range of ids.
        while state.after < state.upto and (most is None or state.done < most):
            began = time.monotonic()
            size = BATCH if most is None else min(BATCH, most - state.done)
            step(connection, action, wanted, state, size=size, priority=priority, reason=reason)
            took = time.monotonic() - began
            yield Step(state.done, state.locked)
            if find.rows(connection, (WORKING, {}))[0][0]:
                time.sleep(took * REST)
        if state.first_locked is None or state.last_locked is None or again == ROUNDS - 1:
            return
        time.sleep(WAIT_SECONDS * 2**again)
        state.after, state.upto = state.first_locked - 1, state.last_locked
        state.locked, state.first_locked, state.last_locked = 0, None, None


def step(
    connection: psycopg.Connection[Any],
    action: Action,
    wanted: Search,
    state: Walk,
    *,
    size: int,
    priority: int | None,
    reason: str | None,
) -> None:
    """Take the next range of ids in a transaction of its own."""
    upto = min(state.after + state.stretch, state.upto)
    began = time.monotonic()
    try:
        statement = search.batch(action, wanted, after=state.after, upto=upto, most=size, priority=priority)
        found, last, done, first_locked, last_locked = attempt(connection, statement, reason)[0]
    except QueryCanceled:
        if state.stretch == 1:
            raise
        state.stretch = max(1, state.stretch // 16)
        return
    took = time.monotonic() - began
    state.after = last if found == size else upto
    state.done += done
    if first_locked is not None:
        state.locked += found - done
        state.first_locked = state.first_locked or first_locked
        state.last_locked = last_locked
    if found == 0:
        # Skips any gap: ids may lie far apart.
        state.after = min(max(state.after, find.span(connection, wanted, after=state.after)[0]), state.upto)
    if took > STEP_SECONDS:
        # Not below the first step's range; a range that was cut below it stays, or the step would be cancelled again.
        state.stretch = max(min(STRETCH, state.stretch), state.stretch // 2)
    elif found < size:
        state.stretch *= 2


def attempt(connection: psycopg.Connection[Any], asked: find.Asked, reason: str | None) -> list[Any]:
    """Run a statement in a transaction; again if another transaction's lock, or a task that just moved, stopped it."""
    for tries in range(TRIES):
        try:
            with connection.transaction():
                find.rows(connection, (BEGIN, {"reason": reason or ""}))
                return find.rows(connection, asked)
        except transient_errors.IN_THE_WAY as error:
            if tries == TRIES - 1:
                raise InTheWay(
                    f"another transaction's lock was in the way {TRIES} times ({transient_errors.reason(error)}); "
                    "try again later"
                ) from error
            time.sleep(WAIT_SECONDS * (tries + 1))
    raise AssertionError("the last try returns or raises")
