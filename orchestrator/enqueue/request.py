"""What a producer asks for, checked and written as the JSON that the schema's functions read. Pure.

A task is its payload in an envelope: type and options. Tasks with the same options share one envelope, written once.
All is in ASCII, since the connection may speak latin1.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from orchestrator.errors import EnqueueRefused
from orchestrator.task import duration, payload
from orchestrator.task.duration import Duration

BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
PRIORITIES: Mapping[str, int] = {"low": 25, "normal": 50, "high": 75, "critical": 100}
ATTEMPTS_MAX = 32_767
NAME_CHARACTERS_MAX = 200
SURROGATE = re.compile("[\ud800-\udfff]")
# What `enqueue_one.sql` takes besides the payload.
ONE_TAKES = frozenset({"type", "queue", "priority", "run_at", "delay", "max_attempts", "timeout"})
Priority = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a task is to be enqueued. None: what its type says, then its queue, then the house."""

    queue: str | None = None
    priority: Priority | None = None
    run_at: datetime | None = None
    delay: Duration | None = None
    key: str | None = None
    key_window: Duration | None = None
    max_attempts: int | None = None
    timeout: Duration | None = None
    tags: Sequence[str] | None = None
    metadata: Mapping[str, Any] | None = None
    trace_context: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Envelope:
    """All that is said of a task but its payload, as JSON text."""

    type: str
    alike: str
    """An object: the type and the options, the key apart."""
    key: str
    """The key's members, to follow those; empty without a key."""
    columns: Mapping[str, str | None] | None
    """The arguments of `enqueue`, if it takes these options as texts; to take an object apart costs it 8 µs."""
    is_traced: bool = False
    """Whether a trace context is among the options."""

    def around(self, body: str) -> str:
        """Return one item for `enqueue_many`."""
        return f'{self.alike[:-1]}, "payload": {body}{self.key}}}'


# A plain pair: to make an object of a class would take a tenth of the time that a task of a set has.
Request = tuple[Envelope, str]
"""One task to be enqueued: its envelope, and its payload as JSON text."""


def request(kind: str, arguments: Mapping[str, Any], options: Options, *, bytes_max: int) -> Request:
    """Check and write down one task; refuses by name what the database could not hold."""
    body = written(arguments, bytes_max=bytes_max)
    return envelope(kind, options, bytes_max=bytes_max), body


def written(arguments: Mapping[str, Any], *, bytes_max: int) -> str:
    """Check and write down a payload."""
    return ascii_only(payload.encode(arguments, bytes_max=bytes_max))


def envelope(kind: str, options: Options, *, bytes_max: int) -> Envelope:
    """Check and write down what is said of a task besides its payload."""
    members: dict[str, Any] = {"type": text("the type", kind)}
    key: dict[str, Any] = {}
    if options.run_at is not None:
        members["run_at"] = moment("run_at", options.run_at)
    for name, into in (("delay", members), ("key_window", key), ("timeout", members)):
        value = getattr(options, name)
        if value is not None:
            into[name] = f"{seconds(name, value):.6f} seconds"
    if options.priority is not None:
        members["priority"] = priority_number(options.priority)
    if options.metadata is not None:
        members["metadata"] = raw(payload.encode(options.metadata, bytes_max=bytes_max, root="metadata"))
    if options.trace_context is not None:
        members["trace_context"] = raw(
            payload.encode(options.trace_context, bytes_max=bytes_max, root="trace_context")
        )
    if options.tags is not None:
        members["tags"] = tags(options.tags)
    if options.queue is not None:
        members["queue"] = queue_name(options.queue)
    if options.key is not None:
        key["key"] = text("key", options.key)
    if options.max_attempts is not None:
        members["max_attempts"] = attempts(options.max_attempts)
    following = f", {as_json(key)[1:-1]}" if key else ""
    columns = None if key else columns_of(members)
    return Envelope(
        members["type"], as_json(members), following, columns, is_traced="trace_context" in members
    )


def columns_of(members: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """Write the options as texts, which any driver sends and the server casts; None if one of them is no text."""
    if not members.keys() <= ONE_TAKES:
        return None
    return {name: str(members[name]) if name in members else None for name in ONE_TAKES}


def stays(options: Options) -> bool:
    """Tell that an envelope written once will do for every task: nothing in these options can be changed meanwhile."""
    return options.tags is None and options.metadata is None and options.trace_context is None


def as_json(members: Mapping[str, Any]) -> str:
    return ascii_only(msgspec.json.encode(members).decode())


def ascii_only(text: str) -> str:
    return text if text.isascii() else BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def priority_number(priority: Priority) -> int:
    """Read a priority, which may be one of the four names."""
    if isinstance(priority, str):
        if priority not in PRIORITIES:
            raise EnqueueRefused(
                f"the priority is {duration.shown(priority)}; it must be 0 to 100, or one of {', '.join(PRIORITIES)}"
            )
        return PRIORITIES[priority]
    if isinstance(priority, bool) or not isinstance(priority, int) or not 0 <= priority <= 100:
        raise EnqueueRefused(f"the priority is {duration.shown(priority)}; it must lie between 0 and 100")
    return priority


def seconds(name: str, value: Duration) -> float:
    """Read a span of time as seconds."""
    try:
        return duration.seconds(name, value)
    except ValueError as error:
        raise EnqueueRefused(str(error)) from None


def moment(name: str, value: datetime) -> str:
    """Read a point in time; without a zone it would be another one in every session."""
    if not isinstance(value, datetime):
        raise EnqueueRefused(f"{name} is a {type(value).__name__}; it must be a datetime with a time zone")
    if value.utcoffset() is None:
        raise EnqueueRefused(f"{name} has no time zone; give it one, for example datetime.now(UTC)")
    return value.isoformat()


def text(name: str, value: str) -> str:
    """Read a name or a key, which PostgreSQL must be able to hold."""
    if not isinstance(value, str):
        raise EnqueueRefused(f"{name} is a {type(value).__name__}; it must be text")
    if "\x00" in value or (not value.isascii() and SURROGATE.search(value)):
        raise EnqueueRefused(f"{name} holds a NUL or a lone surrogate, which PostgreSQL cannot store")
    return str(value)


def queue_name(value: str) -> str:
    """Read the name of a queue."""
    if not 1 <= len(text("queue", value)) <= NAME_CHARACTERS_MAX:
        raise EnqueueRefused(f"queue must have 1 to {NAME_CHARACTERS_MAX} characters, not {len(value)}")
    return value


def tags(value: Sequence[str]) -> list[str]:
    """Read tags; a single text is no sequence of tags, though Python would take it for one of letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise EnqueueRefused(f"tags are a {type(value).__name__}; they must be a list of texts")
    return [text(f"tags[{n}]", tag) for n, tag in enumerate(value)]


def attempts(value: int) -> int:
    """Read a number of attempts."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= ATTEMPTS_MAX:
        raise EnqueueRefused(
            f"max_attempts is {duration.shown(value)}; it must be a whole number between 1 and {ATTEMPTS_MAX:,}"
        )
    return value


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
