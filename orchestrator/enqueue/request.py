"""What a producer asks for, checked and written as the JSON that `enqueue_many` reads. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from orchestrator.errors import EnqueueRefused
from orchestrator.task import payload

PRIORITIES: Mapping[str, int] = {"low": 25, "normal": 50, "high": 75, "critical": 100}
Priority = int | str
Delay = timedelta | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a task is to be enqueued. None: what its type says, then its queue, then the house."""

    queue: str | None = None
    priority: Priority | None = None
    run_at: datetime | None = None
    delay: Delay | None = None
    key: str | None = None
    key_window: Delay | None = None
    max_attempts: int | None = None
    timeout: Delay | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One task to be enqueued, as JSON text."""

    body: bytes


def request(kind: str, arguments: Mapping[str, Any], options: Options, *, bytes_max: int) -> Request:
    """Check and write down one task; refuses by name what the database could not hold."""
    body: dict[str, Any] = {"type": kind, "payload": raw(payload.encode(arguments, bytes_max=bytes_max))}
    if options.run_at is not None:
        if options.run_at.tzinfo is None:
            raise EnqueueRefused("run_at has no time zone; give it one, for example datetime.now(UTC)")
        body["run_at"] = options.run_at.isoformat()
    for name in ("delay", "key_window", "timeout"):
        value = getattr(options, name)
        if value is not None:
            body[name] = f"{seconds(name, value)} seconds"
    if options.priority is not None:
        body["priority"] = priority_number(options.priority)
    if options.metadata is not None:
        body["metadata"] = raw(payload.encode(options.metadata, bytes_max=bytes_max, root="metadata"))
    if options.tags is not None:
        body["tags"] = raw(payload.encode_result(list(options.tags), bytes_max=bytes_max))
    for name in ("queue", "key", "max_attempts"):
        value = getattr(options, name)
        if value is not None:
            body[name] = value
    return Request(msgspec.json.encode(body))


def as_array(requests: Sequence[Request]) -> str:
    """Join requests to the array that `enqueue_many` takes."""
    return (b"[" + b",".join(request.body for request in requests) + b"]").decode()


def priority_number(priority: Priority) -> int:
    """Read a priority, which may be one of the four names."""
    if isinstance(priority, str):
        if priority not in PRIORITIES:
            raise EnqueueRefused(
                f"the priority is {priority!r}; it must be 0 to 100, or one of {', '.join(PRIORITIES)}"
            )
        return PRIORITIES[priority]
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 100:
        raise EnqueueRefused(f"the priority is {priority!r}; it must lie between 0 and 100")
    return priority


def seconds(name: str, value: Delay) -> float:
    """Read a span of time as seconds."""
    span = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(span, bool) or not isinstance(span, int | float) or not math.isfinite(span) or span < 0:
        raise EnqueueRefused(
            f"{name} is {value!r}; it must be a timedelta or a number of seconds, not negative"
        )
    return span


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
