"""The values in a call: valid, almost valid, and anything else."""

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from orchestrator.errors import Cancel, Discard, Retry, Snooze

NASTY = (
    "", " ", "\x00", "a\x00b", "\ud800", "\x1b[2J\x1b]0;owned\x07", "\r\n", "%s", "%(id)s", "{}", "{a,b}", "$$",
    "'; DROP TABLE tasks; --", '"', "\\", "\\u0000", "\u202e", "\u2028", "e\u0301", "\U0001d4b3", "null", "NaN",
    "default", "post", "shut", "held",
)  # fmt: skip
# The long texts are made after the draw, because hypothesis prints what it draws from.
REPEATED = (
    ("x", 200),
    ("x", 201),
    ("é", 200),
    ("x", 500),
    ("x", 501),
    ("x", 65_536),
    ("\x01", 50_000),
    ("é", 131_060),
)
repeated = st.sampled_from(REPEATED).map(lambda drawn: drawn[0] * drawn[1])
texts = st.sampled_from(NASTY) | repeated | st.text(st.characters(exclude_categories=()), max_size=12)
names = st.sampled_from(["mail", "post", "default"]) | texts

NUMBERS = (
    0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 0.1, -0.0, 1e23, 5e-324, 1.7976931348623157e308, math.nan,
    math.inf, -math.inf, True,
)  # fmt: skip
# These are made after the draw, because Python refuses to print some of them.
long_ones = st.sampled_from([(4299, 1), (4300, 1), (5000, 1), (4299, -1), (4300, -1)]).map(
    lambda drawn: drawn[1] * (10 ** drawn[0] - 1)
)
numbers = st.sampled_from(NUMBERS) | st.integers() | st.floats() | long_ones


def nested(levels: int, *, by: str) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value} if by == "objects" else [value]
    return value


deep = st.builds(nested, st.sampled_from([3, 62, 63, 64, 65, 500]), by=st.sampled_from(["objects", "arrays"]))
large = st.sampled_from([("x", 200_000), ("é", 131_060), ("é", 131_080), ([[]], 40_000), ([1], 120_000)]).map(
    lambda drawn: drawn[0] * drawn[1]  # type: ignore[operator]
)
NO_JSON = (
    object,
    {1, 2},
    1j,
    {1: "a"},
    {None: 1},
    {("a",): 1},
    range(3),
    Ellipsis,
    b"\xff",
    memoryview(b"a"),
)
no_json = st.sampled_from(NO_JSON)
leaves = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
anything = values | deep | large | no_json
payloads = st.one_of(
    st.dictionaries(texts, values, max_size=4),
    st.dictionaries(st.text("abc_", min_size=1, max_size=3), values, max_size=4),
    st.fixed_dictionaries({"a": anything}),
)


def dumps(value: Any) -> str:
    """Write JSON, or a number that is too long if Python cannot write the value."""
    try:
        return json.dumps(value)
    except ValueError:
        return '{"n": ' + "9" * 4301 + "}"


# Text that PostgreSQL reads as JSON: JSON that Python cannot write, and text that is no JSON.
NUMERALS = ("1e130000", "1e-16000", "-1e308", "1e309", "1E+2", "-0", "01", "NaN", "1e999999")
LONG_NUMERALS = (("", "9", 4300), ("", "9", 4301), ("-", "9", 4300), ("9.", "9", 4300), ("0.", "1", 400))
numerals = st.sampled_from(NUMERALS) | st.sampled_from(LONG_NUMERALS).map(
    lambda drawn: f"{drawn[0]}{drawn[1] * drawn[2]}"
)
WRITTEN = (
    "", "null", "[]", "1", '"text"', "{", '{"a": 1, "a": 2}', '{"a": "\\u0000"}', '{"a": "\\ud800"}', '{"": {"": []}}',
)  # fmt: skip
bombs = st.sampled_from([("[", 5_000, "]"), ("[", 100, "]"), ("[1e130000, ", 99, "1" + "]" * 99)]).map(
    lambda drawn: f'{{"a": {drawn[0] * drawn[1]}{drawn[2] * (drawn[1] if drawn[2] == "]" else 1)}}}'
)
bodies = st.one_of(
    st.sampled_from(WRITTEN),
    bombs,
    numerals.map(lambda numeral: f'{{"n": {numeral}}}'),
    st.lists(numerals, max_size=3).map(lambda found: f'{{"n": [{", ".join(found)}]}}'),
    st.dictionaries(texts, values, max_size=3).map(dumps),
    (deep | large).map(lambda value: dumps({"a": value})),
)

MOMENTS = (
    datetime.now(UTC), datetime(1969, 12, 31, tzinfo=UTC), datetime(9001, 1, 1, tzinfo=UTC), datetime(2030, 1, 1),
    datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC),
    "tomorrow", 0, "2030-01-01 00:00+00", None,
)  # fmt: skip
SPANS = (
    0, 1, 0.5, -1, "5m", "1h30m", "", "m", "5 apples", timedelta(days=2), timedelta(days=-1), timedelta.max, math.nan,
    math.inf, 1e300, True, None, "1e3s", "٣s",
)  # fmt: skip
PRIORITIES: tuple[object, ...] = (0, 50, 100, 101, -1, "high", "urgent", True, 1.5, 2**70, None, "50", [])
COUNTS = (1, 4, 32_767, 32_768, 0, -1, True, 2.0, 10**30, None, "3")
options = st.fixed_dictionaries(
    {},
    optional={
        "queue": names | st.sampled_from([None, 5, b"post"]),
        "priority": st.sampled_from(PRIORITIES),
        "run_at": st.sampled_from(MOMENTS),
        "delay": st.sampled_from(SPANS),
        "key": texts | st.sampled_from([None, 5]),
        "key_window": st.sampled_from(SPANS),
        "max_attempts": st.sampled_from(COUNTS),
        "timeout": st.sampled_from(SPANS),
        "tags": st.lists(texts, max_size=3)
        | st.sampled_from([None, "ab", [None], [5], ["t"] * 101, ("a",), 5]),
        "metadata": payloads | st.sampled_from([None, [], 5, "{}"]),
    },
)

# Values in plain SQL, as text.
TIMES = (
    "now",
    "infinity",
    "-infinity",
    "1969-12-31",
    "9001-01-01",
    "4713-01-01 BC",
    "294276-12-31",
    "soon",
    "",
    "2030-01-01",
)
INTERVALS = (
    "0",
    "1 hour",
    "-1 hour",
    "9000 years",
    "178000000 years",
    "1 month",
    "infinity",
    "soon",
    "",
    "0.0000001 s",
)
INTEGERS = (
    "0",
    "1",
    "50",
    "100",
    "101",
    "-1",
    "32767",
    "32768",
    "2147483648",
    "9223372036854775808",
    "x",
    "",
    "1.5",
)
ARRAYS = (
    "{}",
    "{a,b}",
    "{NULL}",
    "{{a,b},{c,d}}",
    "[5:6]={a,b}",
    "{",
    "{" + ",".join(["t"] * 101) + "}",
    '{"x\\"y"}',
)
arrays = st.sampled_from(ARRAYS) | texts.map(
    lambda text: '{"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"}'
)
BY_TYPE = {
    "text": names,
    "jsonb": bodies,
    "integer": st.sampled_from(INTEGERS),
    "smallint": st.sampled_from(INTEGERS),
    "bigint": st.sampled_from(INTEGERS),
    "boolean": st.sampled_from(["true", "false", "maybe"]),
    "timestamp with time zone": st.sampled_from(TIMES),
    "date": st.sampled_from(TIMES),
    "interval": st.sampled_from(INTERVALS),
    "text[]": arrays,
    "uuid": st.sampled_from(["00000000-0000-0000-0000-000000000000", "x", "{" + "f" * 32 + "}"]),
    "uuid[]": st.sampled_from(["{}", "{NULL}", "{00000000-0000-0000-0000-000000000000}"]),
}
members = st.fixed_dictionaries(
    {},
    optional={
        "type": names | values, "payload": st.dictionaries(texts, values, max_size=3) | deep | values,
        "queue": names | values, "priority": numbers | texts,
        "run_at": st.sampled_from(TIMES) | values, "delay": st.sampled_from(INTERVALS) | values,
        "key": texts | values, "key_window": st.sampled_from(INTERVALS), "max_attempts": numbers,
        "timeout": st.sampled_from(INTERVALS), "tags": st.lists(texts, max_size=3) | values,
        "metadata": values, "trace_context": values, "stranger": values,
    },
)  # fmt: skip

# The ends of an attempt.


class Mute(Exception):
    """An exception whose str() raises."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Liar(Exception):
    """An exception whose str() returns no text."""

    def __str__(self) -> Any:
        return 5


def named(name: str, message: str) -> BaseException:
    """Make an exception whose class has any name that Python allows."""
    try:
        kind: type[Exception] = type(name, (Exception,), {})
        return kind(message)
    except (ValueError, UnicodeEncodeError):
        return RuntimeError(message)


def chained(message: str) -> BaseException:
    """Make an exception that is the cause of its own cause."""
    one, two = RuntimeError(message), ValueError(message)
    one.__cause__, two.__cause__ = two, one
    return one


raised = st.one_of(
    st.builds(named, texts, texts),
    texts.map(chained),
    texts.map(lambda text: RuntimeError(text * 1000)),
    st.sampled_from(
        [
            Mute(),
            Liar(),
            SystemExit(3),
            KeyboardInterrupt(),
            MemoryError(),
            RecursionError(),
            BaseException("b"),
        ]
    ),
    st.sampled_from(
        [ExceptionGroup("group", [ValueError("\x00")]), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "\ud800")]
    ),
)
SPANS_OR_NOT = st.sampled_from([*SPANS, object()])
signals = st.one_of(
    st.builds(Retry, SPANS_OR_NOT, texts | st.just(5)), st.builds(Snooze, SPANS_OR_NOT),
    st.builds(Cancel, texts | st.none()), st.builds(Discard, texts | st.just(object())),
)  # fmt: skip
endings = anything | raised | signals
