"""Check a producer's request, and write it as the JSON that the schema's functions read. Pure.

A task is its payload in an envelope: type and options. Tasks with the same options share one envelope, written once.
All text is ASCII, since the client encoding may be latin1.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from orchestrator.errors import EnqueueRefused
from orchestrator.task import duration, payload
from orchestrator.task.columns import BY_NAME, NAME_CHARACTERS_MAX, OPTIONS, Kind, Option
from orchestrator.task.duration import Duration

BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
SURROGATE = re.compile("[\ud800-\udfff]")
# The options that tasks of one set cannot share.
OF_ONE_TASK = frozenset({"key", "key_window"})
# The parameters of `one` in send.sql besides the payload.
ONE_TAKES = frozenset({"type", *(option.name for option in OPTIONS if option.fast == "all")}) - OF_ONE_TASK
Priority = int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a task. None: the type decides, then the queue, then the default.

    A field for each of `task.columns.OPTIONS`.
    """

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
    """Everything about a task but its payload, as JSON text."""

    type: str
    alike: str
    """An object: the type and the options without the key."""
    key: str
    """The members for the key, to append; empty without a key."""
    columns: Mapping[str, str | None] | None
    """The arguments of `enqueue`, if all options can go as text; a JSON object would cost the server 8 µs to read."""
    is_traced: bool = False
    """Whether a trace context is among the options."""

    def around(self, body: str) -> str:
        """Return one item for `enqueue_many`."""
        return f'{self.alike[:-1]}, "payload": {body}{self.key}}}'


# A plain pair: an object of a class would take a tenth of the time of a task in a set.
Request = tuple[Envelope, str]
"""One task to be enqueued: its envelope, and its payload as JSON text."""


def request(kind: str, arguments: Mapping[str, Any], options: Options, *, bytes_max: int) -> Request:
    """Check and write one task. The refusal names the value that the database cannot hold."""
    body = written(arguments, bytes_max=bytes_max)
    return envelope(kind, options, bytes_max=bytes_max), body


def written(arguments: Mapping[str, Any], *, bytes_max: int) -> str:
    """Check and write a payload."""
    return ascii_only(payload.encode(arguments, bytes_max=bytes_max))


def envelope(kind: str, options: Options, *, bytes_max: int) -> Envelope:
    """Check and write everything about a task but its payload."""
    members: dict[str, Any] = {"type": text("the type", kind)}
    key: dict[str, Any] = {}
    for option in OPTIONS:
        value = getattr(options, option.name)
        if value is not None:
            into = key if option.name in OF_ONE_TASK else members
            into[option.name] = WRITERS[option.kind](option, value, bytes_max)
    following = f", {as_json(key)[1:-1]}" if key else ""
    columns = None if key else columns_of(members)
    return Envelope(
        members["type"], as_json(members), following, columns, is_traced="trace_context" in members
    )


def columns_of(members: Mapping[str, Any]) -> Mapping[str, str | None] | None:
    """Return the options as text, which any driver sends and the server casts; None if one cannot be text."""
    if not members.keys() <= ONE_TAKES:
        return None
    return {name: str(members[name]) if name in members else None for name in ONE_TAKES}


def stays(options: Options) -> bool:
    """Tell whether one envelope fits every task: none of these options is an object that may change meanwhile."""
    return options.tags is None and options.metadata is None and options.trace_context is None


def as_json(members: Mapping[str, Any]) -> str:
    return ascii_only(msgspec.json.encode(members).decode())


def ascii_only(text: str) -> str:
    return text if text.isascii() else BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)


def integer(name: str, value: object) -> int:
    """Read a whole number, which may have a name."""
    option = BY_NAME[name]
    words = option.words or {}
    if isinstance(value, str) and value in words:
        return words[value]
    if isinstance(value, bool) or not isinstance(value, int) or not option.least <= value <= option.most:
        if isinstance(value, str) and words:
            bounds = f"be {option.least} to {option.most}, or one of {', '.join(words)}"
        else:
            bounds = f"lie between {option.least} and {option.most:,}"
        raise EnqueueRefused(f"{option.label} is {duration.shown(value)}; it must {bounds}")
    return value


def seconds(name: str, value: Duration) -> float:
    """Read a span of time as seconds."""
    try:
        return duration.seconds(name, value)
    except ValueError as error:
        raise EnqueueRefused(str(error)) from None


def moment(name: str, value: datetime) -> str:
    """Read a point in time. Without a zone it would depend on the session."""
    if not isinstance(value, datetime):
        raise EnqueueRefused(
            f"{name} is of type {type(value).__name__}; it must be a datetime with a time zone"
        )
    if value.utcoffset() is None:
        raise EnqueueRefused(f"{name} has no time zone; give it one, for example datetime.now(UTC)")
    return value.isoformat()


def text(name: str, value: str) -> str:
    """Read a name or a key, which PostgreSQL must be able to hold."""
    if not isinstance(value, str):
        raise EnqueueRefused(f"{name} is of type {type(value).__name__}; it must be text")
    if "\x00" in value or (not value.isascii() and SURROGATE.search(value)):
        raise EnqueueRefused(f"{name} holds a NUL or a lone surrogate, which PostgreSQL cannot store")
    return str(value)


def queue_name(value: str) -> str:
    """Read the name of a queue."""
    if not 1 <= len(text("queue", value)) <= NAME_CHARACTERS_MAX:
        raise EnqueueRefused(f"queue must have 1 to {NAME_CHARACTERS_MAX} characters, not {len(value)}")
    return value


def texts(name: str, value: Sequence[str]) -> list[str]:
    """Read a list of texts. A single text is no list, though Python would iterate over its letters."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise EnqueueRefused(f"{name} are of type {type(value).__name__}; they must be a list of texts")
    return [text(f"{name}[{n}]", each) for n, each in enumerate(value)]


def raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def document(name: str, value: Mapping[str, Any], bytes_max: int) -> msgspec.Raw:
    """Write a JSON object beside the payload."""
    return raw(payload.encode(value, bytes_max=bytes_max, root=name))


# How to check and write the values of each kind.
WRITERS: Mapping[Kind, Callable[[Option, Any, int], Any]] = {
    "name": lambda _option, value, _max: queue_name(value),
    "text": lambda option, value, _max: text(option.name, value),
    "integer": lambda option, value, _max: integer(option.name, value),
    "moment": lambda option, value, _max: moment(option.name, value),
    "span": lambda option, value, _max: f"{seconds(option.name, value):.6f} seconds",
    "texts": lambda option, value, _max: texts(option.name, value),
    "document": lambda option, value, bytes_max: document(option.name, value, bytes_max),
}
