"""The application under fault: handlers of every kind and outcome, and a second version with one more type.

Each handler first writes into the ledger, and its result or exception contains its lease. If an outcome is accepted
under another lease than its own, the two differ in the row.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from orchestrator import Backoff, Cancel, Context, Discard, Orchestrator, Retry, Snooze
from tests.chaos import handler_log

EFFECT = "INSERT INTO chaos.effects (task_id, attempt, lease, who) VALUES (%s, %s, %s, %s)"
SOON = Backoff(base_seconds=0.05, factor=2.0, cap_seconds=0.5)
DICE = random.Random()  # noqa: S311 - no secret

Result = dict[str, str]


class Stumbled(Exception):
    """A handler failed, as planned."""


def result(context: Context) -> Result:
    """Return the lease, as text: JSON has no number of that size."""
    return {"lease": str(context.lease)}


async def note(context: Context, token: str) -> Result:
    """Take a moment."""
    async with handler_log.written(context, token):
        await asyncio.sleep(DICE.random() * 0.03)
    return result(context)


def note_in_thread(context: Context, token: str) -> Result:
    """The same in a thread."""
    with handler_log.written_in_thread(context, token):
        time.sleep(DICE.random() * 0.03)
    return result(context)


async def book(context: Context, token: str) -> None:
    """Write an effect, and complete the task with it."""
    async with handler_log.written(context, token), context.transaction() as connection:
        await connection.execute(EFFECT, [context.id, context.attempt, context.lease, handler_log.WHO])
        await asyncio.sleep(DICE.random() * 0.02)


def book_in_thread(context: Context, token: str) -> None:
    """The same in a thread."""
    with handler_log.written_in_thread(context, token), context.transaction() as connection:
        connection.execute(EFFECT, [context.id, context.attempt, context.lease, handler_log.WHO])
        time.sleep(DICE.random() * 0.02)


async def linger(context: Context, token: str) -> Result:
    """Run for long enough to be marked running, killed, frozen, or requeued."""
    async with handler_log.written(context, token):
        for step in range(10):
            context.progress(step / 10)
            await asyncio.sleep(DICE.random() * 0.3)
    return result(context)


async def stumble(context: Context, token: str) -> Result:
    """Fail at first, and then two times of three."""
    async with handler_log.written(context, token):
        if context.attempt == 1 or context.lease % 3:
            raise Stumbled(f"under lease {context.lease}")
    return result(context)


async def ask_again(context: Context, token: str) -> Result:
    """Request a retry half of the times."""
    async with handler_log.written(context, token):
        if context.lease % 2:
            raise Retry(after=0.1, reason=f"under lease {context.lease}")
    return result(context)


async def snooze(context: Context, token: str) -> Result:
    """Request a later run half of the times."""
    async with handler_log.written(context, token):
        if context.lease % 2:
            raise Snooze(after=0.1)
    return result(context)


async def cancel(context: Context, token: str) -> None:
    """Cancel the task."""
    async with handler_log.written(context, token):
        raise Cancel(f"under lease {context.lease}")


async def discard(context: Context, token: str) -> None:
    """Discard the task."""
    async with handler_log.written(context, token):
        raise Discard(f"under lease {context.lease}")


async def overrun(context: Context, token: str) -> Result:
    """Run longer than the timeout, half of the times."""
    async with handler_log.written(context, token):
        if context.lease % 2:
            # With an end: a task that was inserted before its type was declared has a timeout of 5 minutes.
            await asyncio.sleep(5)
    return result(context)


async def poison(context: Context, token: str) -> None:
    """Kill the process."""
    async with handler_log.written(context, token):
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)


Handler = Callable[..., Any]
HANDLERS: dict[str, tuple[Handler, dict[str, Any]]] = {
    "chaos.note": (note, {}),
    "chaos.note_in_thread": (note_in_thread, {}),
    "chaos.book": (book, {}),
    "chaos.book_in_thread": (book_in_thread, {}),
    "chaos.linger": (linger, {"max_attempts": 1}),
    "chaos.stumble": (stumble, {"max_attempts": 5}),
    "chaos.ask_again": (ask_again, {}),
    "chaos.snooze": (snooze, {}),
    "chaos.cancel": (cancel, {}),
    "chaos.discard": (discard, {}),
    "chaos.overrun": (overrun, {"timeout": 0.5, "max_attempts": 4}),
    "chaos.poison": (poison, {}),
}
TRANSACTIONAL = ("chaos.book", "chaos.book_in_thread")
QUEUES = {"chaos.linger": "slow", "chaos.poison": "slow", "chaos.snooze": "other", "chaos.stumble": "other"}
LATER = "chaos.later"


def declared(handlers: dict[str, tuple[Handler, dict[str, Any]]]) -> Orchestrator:
    """Make an application of these handlers."""
    made = Orchestrator()
    declare: Any = made.task
    for name, (function, options) in handlers.items():
        settings = {
            "max_attempts": 30,
            "timeout": 20.0,
            "backoff": SOON,
            "queue": QUEUES.get(name, "default"),
        }
        declare(name=name, **(settings | options))(function)
    return made


app = declared(HANDLERS)
next_app = declared({**HANDLERS, LATER: (note, {})})
