"""The filters that select tasks: parse what an operator types into a `Search`, from which statements are composed.

The values of one filter are alternatives (`--queue mail --queue video`); a task must meet all filters. A task may have
several tags and payload values, so it must meet all of these conditions. Queues, types, keys and error classes may have
`*` for any text. There are no regular expressions: a user could keep the server busy with one.

An invalid value raises ValueError, and its message says what to type instead.
"""

import difflib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from orchestrator.task import duration
from orchestrator.task.status import Status

# `user_id`, `"a.b"`: a step of a path is quoted where it holds a dot, an equals sign or a quote, which is doubled.
STEP = re.compile(r'"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^."=]+)')
UUID_BEGINS = re.compile(r"[0-9a-f]{8}[0-9a-f-]*")
UUID_DIGITS = 32
ID_MAX = 2**63 - 1
STEPS_MAX = 64
# The digits of a number that jsonb accepts: before the point, and after it.
DIGITS_MAX = 131_072
SCALE_MAX = 16_383
PRIORITIES = {"low": 25, "normal": 50, "high": 75, "critical": 100}
# Other names for the statuses.
CALLED = {"dead": Status.DEAD_LETTER, "dead_letters": Status.DEAD_LETTER, "retrying": Status.SCHEDULED}


@dataclass(frozen=True, slots=True)
class Condition:
    """The value at a path of the payload: JSON, as text."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The common properties of a group of failures."""

    type: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class Search:
    """The conditions that tasks must meet; empty: all tasks meet them."""

    ids: tuple[int, ...] = ()
    statuses: tuple[Status, ...] = ()
    queues: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    error_classes: tuple[str, ...] = ()
    error_text: str | None = None
    payload: tuple[Condition, ...] = ()
    worker: str | None = None
    # The age of a finished task counts from its end; of any other, from its creation.
    before: datetime | None = None
    since: datetime | None = None
    fault: Fault | None = None

    @property
    def is_everything(self) -> bool:
        return all(not getattr(self, field.name) for field in fields(self))


def status(text: str) -> Status:
    """Parse a status, also in forms such as dead-letter, dead, Pending."""
    word = text.strip().lower().replace("-", "_")
    if word in CALLED:
        return CALLED[word]
    try:
        return Status(word)
    except ValueError:
        near = difflib.get_close_matches(word, [*Status, *CALLED], n=1)
        hint = f"did you mean {near[0]}?" if near else f"the statuses are {', '.join(Status)}"
        raise ValueError(f"there is no status {duration.shown(text)}; {hint}") from None


def task_id(text: str) -> int:
    """Parse a task's id."""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:20]) <= ID_MAX:
        raise ValueError(
            f"{duration.shown(text)} is no id of a task; that is a number, as `orchestrator tasks list` shows it"
        )
    return int(text)


def priority(text: str) -> int:
    """Parse a priority: a number, or one of its names."""
    word = text.strip().lower()
    if word in PRIORITIES:
        return PRIORITIES[word]
    if word.isascii() and word.isdigit() and int(word[:4]) <= 100:
        return int(word)
    raise ValueError(
        f"{duration.shown(text)} is no priority; it is a number from 0 to 100, or {', '.join(PRIORITIES)}"
    )


def condition(text: str) -> Condition:
    """Parse `payload.user_id=42`: a valid JSON value is JSON, anything else is text."""
    written = known(text)
    if not written.startswith("payload."):
        raise ValueError(f"{duration.shown(text)} is no condition on the payload; write payload.user_id=42")
    path, rest = steps(written.removeprefix("payload."), text)
    if not rest.startswith("="):
        raise ValueError(
            f"{duration.shown(text)} has no value; write payload.user_id=42, or payload.name=Ada for text"
        )
    return Condition(path, json_of(rest.removeprefix("=")))


def steps(rest: str, text: str) -> tuple[tuple[str, ...], str]:
    """Split a path; return its steps and the text after it. Ends: each round takes at least one character."""
    path: list[str] = []
    while True:
        if (found := STEP.match(rest)) is None:
            raise ValueError(
                f'the path in {duration.shown(text)} has an empty step; quote one with dots: payload."a.b".c=1'
            )
        path.append(found["plain"] or found["quoted"].replace('""', '"'))
        rest = rest[found.end() :]
        if not rest.startswith("."):
            break
        rest = rest[1:]
    if len(path) > STEPS_MAX:
        raise ValueError(f"the path has {len(path)} steps; no payload is nested deeper than {STEPS_MAX}")
    return tuple(path), rest


def json_of(value: str) -> str:
    """Return the value as JSON text. JSON that Python cannot parse but the database may hold stays unchanged."""
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return msgspec.json.encode(value).decode()
    try:
        known_within(json.loads(value, parse_float=number, parse_int=number))
    except RecursionError:
        raise ValueError("the value is nested too deep; no payload is") from None
    return value


def known_within(value: Any) -> None:
    """Refuse a value with text that the database cannot hold."""
    match value:
        case str():
            known(value)
        case dict():
            for each in (*value, *value.values()):
                known_within(each)
        case list():
            for each in value:
                known_within(each)


def number(text: str) -> Decimal:
    """Return a number that jsonb can hold; refuse any other, because no payload has it."""
    with suppress(InvalidOperation):
        found = Decimal(text)
        exponent = found.as_tuple().exponent
        if found.adjusted() < DIGITS_MAX and isinstance(exponent, int) and exponent >= -SCALE_MAX:
            return found
    raise ValueError(f"{text[:40]} is no number that PostgreSQL can hold, and so in no payload")


def moment(text: str, *, now: datetime) -> datetime:
    """Parse `2h` (that long ago) or a point in time, in UTC unless it names an offset."""
    try:
        if (span := duration.spelled_out(text)) is not None:
            return now - timedelta(seconds=span)
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{duration.shown(text)} is no age; write 30m, 2h, 7d, or a time: 2026-11-18 or 2026-11-18T02:30:00Z (UTC)"
        ) from None


def check_age(text: str | None) -> None:
    """Refuse an invalid age, before the database is asked for its time."""
    if text is not None:
        moment(text, now=datetime.now(UTC))


def known(text: str) -> str:
    """Return text that the database can hold; refuse any other, because no task has it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{duration.shown(text)} is no UTF-8 text, and so in no task") from None
    if "\0" in text:
        raise ValueError(f"{duration.shown(text)} holds a NUL, and so is in no task")
    return text


def pattern(text: str) -> str:
    """Return the LIKE pattern for the text: `*` matches anything, no other character is special."""
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%")


def uuid_range(text: str) -> tuple[str, str] | None:
    """Return the first and the last uuid with this beginning; None if the text is no beginning of a uuid."""
    word = text.lower()
    digits = word.replace("-", "")
    if not UUID_BEGINS.fullmatch(word) or len(digits) > UUID_DIGITS:
        return None
    return digits.ljust(UUID_DIGITS, "0"), digits.ljust(UUID_DIGITS, "f")
