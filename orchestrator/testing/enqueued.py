"""Assertions about enqueued tasks. They read the committed state of the database, or that of an open transaction
(`assert_enqueued(welcome.using(session), user_id=1)`).

A task is enqueued while it waits or runs; a finished task is not. Only the named arguments are compared, each in its
JSON form, so a date or a dataclass may be given as to `enqueue`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from orchestrator import enqueue, observe
from orchestrator.app import Orchestrator, Sender, TaskFunction
from orchestrator.enqueue import AsyncTarget, Target
from orchestrator.enqueue.target_psycopg import AsyncPsycopg
from orchestrator.postgres import statement
from orchestrator.task import payload
from orchestrator.testing.application import producer_of, sender_of

ENQUEUED = statement.load(__file__, "enqueued.sql")

ROWS_MAX = 10_000
SHOWN_MAX = 20
SHOWN_CHARACTERS_MAX = 200

Task = TaskFunction[..., Any] | Sender
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class EnqueuedTask:
    """A task that waits or runs, as stored in the database."""

    id: int
    type: str
    queue: str
    arguments: dict[str, Any]
    status: str
    priority: int
    run_at: datetime
    attempt: int
    max_attempts: int
    key: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]


def all_enqueued(what: Orchestrator | Task, /, *, using: object = None) -> list[EnqueuedTask]:
    """Return the enqueued tasks, of one type or of all, the oldest first. With `using`, read in that transaction."""
    kind, held = named(what, using)
    with producer_of(what).target(held) as target:
        return list(map(task_of, rows(target, given(kind))))


async def aall_enqueued(what: Orchestrator | Task, /, *, using: object = None) -> list[EnqueuedTask]:
    """The same on the event loop."""
    kind, held = named(what, using)
    async with producer_of(what).atarget(held) as target:
        return list(map(task_of, await arows(target, given(kind))))


def assert_enqueued(task: Task, /, **arguments: Any) -> EnqueuedTask:
    """Return the oldest matching task. Otherwise raise AssertionError, which lists the enqueued tasks."""
    sender, parameters = sought(task, arguments)
    with sender.producer.target(sender.held) as target:
        found = rows(target, parameters)
        return task_of(found[0]) if found else missing(parameters, rows(target, given(None)))


async def aassert_enqueued(task: Task, /, **arguments: Any) -> EnqueuedTask:
    """The same on the event loop."""
    sender, parameters = sought(task, arguments)
    async with sender.producer.atarget(sender.held) as target:
        found = await arows(target, parameters)
        return task_of(found[0]) if found else missing(parameters, await arows(target, given(None)))


def refute_enqueued(task: Task, /, **arguments: Any) -> None:
    """Raise AssertionError if there are matching tasks, and list them."""
    sender, parameters = sought(task, arguments)
    with sender.producer.target(sender.held) as target:
        refuse(parameters, rows(target, parameters))


async def arefute_enqueued(task: Task, /, **arguments: Any) -> None:
    """The same on the event loop."""
    sender, parameters = sought(task, arguments)
    async with sender.producer.atarget(sender.held) as target:
        refuse(parameters, await arows(target, parameters))


def rows(target: Target, parameters: dict[str, str | None]) -> list[Row]:
    return target.rows(ENQUEUED, parameters)


async def arows(target: AsyncTarget, parameters: dict[str, str | None]) -> list[Row]:
    if isinstance(target, AsyncPsycopg):
        return await target.rows(ENQUEUED, parameters)
    return await target.run(rows, parameters)


def named(what: Orchestrator | Task, using: object) -> tuple[str | None, object]:
    if isinstance(what, Orchestrator):
        return None, using
    sender = sender_of(what)
    return sender.handler.type, using if using is not None else sender.held


def sought(task: Task, arguments: Mapping[str, Any]) -> tuple[Sender, dict[str, str | None]]:
    """Return the search. Raise TypeError for an argument that the task does not take, since nothing can match it."""
    sender = sender_of(task)
    handler = sender.handler
    if isinstance(task, Sender) and task.has_options:
        raise TypeError(
            f"{handler.type}: using() holds a connection here, and no options; compare them on what is returned: "
            "assert_enqueued(task).queue"
        )
    if handler.allowed is not None and (strange := sorted(arguments.keys() - handler.allowed)):
        raise TypeError(f"{handler.type} takes no argument {strange[0]!r}, so it is never enqueued with one")
    body = enqueue.written(arguments, bytes_max=sender.producer.config.payload_bytes_max)
    return sender, given(handler.type, body)


def given(kind: str | None, expected: str | None = None) -> dict[str, str | None]:
    return {"type": kind, "expected": expected, "row_limit": str(ROWS_MAX)}


def task_of(row: Row) -> EnqueuedTask:
    id_, kind, queue, body, status, priority, run_at, attempt, max_attempts, key, tags, metadata = row
    return EnqueuedTask(
        id_, kind, queue, payload.decode(body), status, priority, run_at, attempt, max_attempts, key,
        () if tags is None else tuple(payload.decode_any(tags, root="tags")),
        {} if metadata is None else payload.decode(metadata, root="metadata"),
    )  # fmt: skip


def missing(parameters: Mapping[str, str | None], others: list[Row]) -> NoReturn:
    what = f"{described(parameters)} is not enqueued"
    if not others:
        raise AssertionError(
            f"{what}; nothing is. What a transaction has enqueued is seen from outside when it is committed, and from "
            "inside as assert_enqueued(task.using(session), …); what has finished is not enqueued any more."
        )
    raise AssertionError(f"{what}. Enqueued are:\n{listed(others)}")


def refuse(parameters: Mapping[str, str | None], found: list[Row]) -> None:
    if found:
        raise AssertionError(f"{described(parameters)} is enqueued:\n{listed(found)}")


def described(parameters: Mapping[str, str | None]) -> str:
    expected = parameters["expected"]
    return f"{parameters['type']}" + ("" if expected in (None, "{}") else f" with {expected}")


def listed(found: list[Row]) -> str:
    """Return tasks as lines, the newest last. A payload is untrusted text: it is cut and escaped."""
    lines = [f"  … and {len(found) - SHOWN_MAX} before these"] if len(found) > SHOWN_MAX else []
    for id_, kind, queue, body, status, *_ in found[-SHOWN_MAX:]:
        shown = body if len(body) <= SHOWN_CHARACTERS_MAX else f"{body[:SHOWN_CHARACTERS_MAX]}…"
        lines.append(observe.printable(f"  {kind} {shown} (id {id_}, queue {queue}, {status})"))
    return "\n".join(lines)
