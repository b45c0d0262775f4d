"""Payloads: a value comes back equal, or it is refused at the call, with its path."""

import math
import uuid
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from enum import Enum, IntEnum, StrEnum
from itertools import count
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import PayloadRefused
from orchestrator.task import payload

SECRET = "hunter2"  # noqa: S105 - a canary: no refusal may show it


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 75


class Word(StrEnum):
    KEY = "key"


class Text(str):
    """A str whose str() is another text and that equals no other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __str__(self) -> str:
        return "a lie"

    def __eq__(self, other: object) -> bool:
        return self is other


class Number(int):
    """An int whose text has other digits."""

    def __repr__(self) -> str:
        return "a lie"

    __str__ = __repr__


class Moment(datetime):
    """A subclass of datetime, like those of pendulum and freezegun. msgspec refuses it."""


class Duration(timedelta):
    """A subclass of timedelta, which msgspec refuses too."""


class Zone(tzinfo):
    """A zone with summer time. Without a date it has no offset, like a zone of zoneinfo."""

    def utcoffset(self, dt: datetime | None, /) -> timedelta | None:
        return timedelta(hours=2) if dt else None

    dst = utcoffset

    def tzname(self, dt: datetime | None, /) -> str | None:
        return "ZONE" if dt else None


class Amount(Decimal):
    """A subclass of Decimal, which msgspec refuses too."""


class Model:
    """An object with the interface of a pydantic model."""

    def __init__(self, dumped: object) -> None:
        self.dumped = dumped

    def model_dump(self, *, mode: str, by_alias: bool, round_trip: bool) -> object:
        return self if self.dumped == "endless" else {"mode": mode, "dumped": self.dumped}


class User(msgspec.Struct, rename="camel", tag="user"):
    """A struct with renamed fields, a tag, and a field that may be absent."""

    user_name: str
    born_at: datetime | msgspec.UnsetType | None = msgspec.UNSET


class Pair(msgspec.Struct, array_like=True, tag=True):
    """A struct that is encoded as an array."""

    left: int
    right: object


@dataclass
class Order:
    """A dataclass with a field of any type."""

    items: object


class Raising:
    """A model with a property that raises."""

    @property
    def model_dump(self) -> object:
        raise ZeroDivisionError(SECRET)


class Endless(UserDict[str, object]):
    """A mapping whose items never end."""

    def items(self) -> Any:
        return ((str(number), None) for number in count())


class EndlessList(list[int]):
    """A list whose iterator never ends."""

    def __iter__(self) -> Iterator[int]:
        return iter(int, 1)


class Twice(UserDict[str, object]):
    """A mapping that yields a key twice."""

    def items(self) -> Any:
        return [("a", 1), ("a", 2)]


Point = namedtuple("Point", "x y")


def refusal(value: object, **options: Any) -> PayloadRefused:
    with pytest.raises(PayloadRefused) as caught:
        payload.encode(value, **options)
    return caught.value


def nested(levels: int) -> dict[str, Any]:
    """Return a payload of this many nested containers, by turns arrays and objects. The payload is the first."""
    value: Any = 1
    for level in range(levels - 1):
        value = [value] if level % 2 else {"a": value}
    return {"top": value}


def test_text_is_written_as_jsonb_prints_it() -> None:
    """So its size equals `octet_length(payload::text)` in the insert trigger."""
    text = payload.encode({"user_id": 1, "tags": ["a", 'b"\n\x7f', None], "more": {}, "none": [], "é": 1.5})

    expected = '{"user_id": 1, "tags": ["a", "b\\"\\n\x7f", null], "more": {}, "none": [], "é": 1.5}'
    assert expected == text


@pytest.mark.parametrize(
    "number",
    [
        1e23,
        1e16,
        1e22,
        -1e23,
        5e-324,
        1.7976931348623157e308,
        2.2250738585072014e-308,
        1e-5,
        0.1,
        1.0,
    ],
)
def test_numbers_keep_value_and_type_without_an_exponent(number: float) -> None:
    """PostgreSQL's numeric drops exponents: 1e23 would come back as an integer that is not equal to it."""
    with localcontext() as context:
        context.prec, context.capitals = 3, 0
        text = payload.encode({"n": number})
    back = payload.decode(text)["n"]

    assert (number, type(number)) == (back, type(back))
    assert "e" not in text


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, "a"), [1, "a"]),
        (Point(1, 2), [1, 2]),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (UserDict({"a": 1}), {"a": 1}),
        (True, True),
        (Color.RED, "red"),
        (Level.HIGH, 75),
        (Word.KEY, "key"),
        ({Word.KEY: 1, Color.RED: 2}, {"key": 1, "red": 2}),
        (Text("true text"), "true text"),
        (Number(7), 7),
        (uuid.UUID(int=3), "00000000-0000-0000-0000-000000000003"),
        (Decimal("1.50"), "1.50"),
        (Amount("2.50"), "2.50"),
        (b"abc", "YWJj"),
        (memoryview(b"abc"), "YWJj"),
        (date(2024, 2, 29), "2024-02-29"),
        (timedelta(days=1, microseconds=3), "P1DT0.000003S"),
        (Duration(hours=-1), "-PT3600S"),
        (time(1, 2, tzinfo=UTC), "01:02:00Z"),
        (datetime(2024, 1, 2, 3, tzinfo=UTC), "2024-01-02T03:00:00Z"),
        (datetime(2024, 7, 1, tzinfo=timezone(timedelta(hours=2))), "2024-07-01T00:00:00+02:00"),
        (Moment(2024, 1, 2, tzinfo=UTC), "2024-01-02T00:00:00Z"),
        (User("ann"), {"type": "user", "userName": "ann"}),
        (User("ann", None), {"type": "user", "userName": "ann", "bornAt": None}),
        (Pair(1, Color.RED), ["Pair", 1, "red"]),
        (Order([Level.HIGH]), {"items": [75]}),
        (Model(1), {"mode": "json", "dumped": 1}),
    ],
)
def test_other_types_are_stored_as_their_json(value: object, plain: object) -> None:
    """Structs, dates, Enums and subclasses are written as msgspec writes them."""
    assert {"v": plain} == payload.decode(payload.encode({"v": value}))


@pytest.mark.parametrize("name", ["datetime", "struct", "dataclass", "model"])
def test_an_object_may_be_the_whole_payload(name: str) -> None:
    """A value that becomes a JSON object is accepted; a datetime is refused."""
    wholes = {"struct": User("ann"), "dataclass": Order(1), "model": Model(1)}
    if name in wholes:
        assert payload.encode(wholes[name]).startswith("{")
    else:
        assert "must be a JSON object, not datetime" in str(refusal(datetime(2024, 1, 1, tzinfo=UTC)))


def test_seconds_in_an_offset_do_not_shift_the_instant() -> None:
    """Few readers accept such an offset, and msgspec would round this one by 29 seconds. So it is written in UTC."""
    moment = datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=31)))

    text = payload.decode(payload.encode({"at": moment}))["at"]

    assert "2023-12-31T22:59:29Z" == text
    assert moment == datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ([1], "payload", "must be a JSON object, not list"),
        ("text", "payload", "must be a JSON object, not str"),
        (None, "payload", "must be a JSON object, not NoneType"),
        ({"items": [0, {"name": "\0"}]}, "payload.items[1].name", "contains \\u0000"),
        ({"a\0": 1}, 'payload["a\\u0000"]', "contains \\u0000"),
        ({"a": "é\ud800"}, "payload.a", "lone surrogate"),
        ({"\udfff": 1}, 'payload["\\udfff"]', "lone surrogate"),
        ({"a b": math.nan}, 'payload["a b"]', "is nan"),
        ({"a": [math.inf]}, "payload.a[0]", "is inf"),
        ({"a": -math.inf}, "payload.a", "is -inf"),
        ({"a": {"b": 1, 1: 2}}, "payload.a", "has a key of type int"),
        ({None: 1}, "payload", "has a key of type NoneType"),
        ({"a": {Level.HIGH: 1}}, "payload.a", "has a key of type Level"),
        ({"a": [Twice()]}, "payload.a[0].a", "is a key given twice"),
        ({"a": 1, Text("a"): 2}, "payload.a", "is a key given twice"),
        ({"a": 10**4300}, "payload.a", "longer than 4,300 digits"),
        ({"a": -(10**4299)}, "payload.a", "longer than 4,300 digits"),
        ({"a": Number(10**4300)}, "payload.a", "longer than 4,300 digits"),
        ({"a": datetime(2024, 1, 1)}, "payload.a", "is a datetime without a UTC offset"),
        ({"a": time(1)}, "payload.a", "is a time without a UTC offset"),
        ({"a": time(1, tzinfo=Zone())}, "payload.a", "without a UTC offset"),
        ({"a": {1, 2}}, "payload.a", "is a set"),
        ({"a": frozenset()}, "payload.a", "is a frozenset"),
        ({"a": object()}, "payload.a", "is of type object"),
        ({"a": Order}, "payload.a", "is of type type"),
        ({"a": 1j}, "payload.a", "is of type complex"),
        ({"a": msgspec.UNSET}, "payload.a", "is of type UnsetType"),
        ({"a": iter([1])}, "payload.a", "is of type list_iterator"),
        (User("ann", datetime(2024, 1, 1)), "payload.bornAt", "without a UTC offset"),
        ({"a": Pair(1, {2})}, "payload.a[2]", "is a set"),
        (Order([0, {"a": {1}}]), "payload.items[1].a", "is a set"),
        (Model(math.nan), "payload.dumped", "is nan"),
        ({"a": Model("endless")}, "payload.a", "is nested deeper than can be followed"),
    ],
)
def test_a_value_that_would_not_come_back_equal_is_refused_by_name(
    value: object, path: str, words: str
) -> None:
    """The refusal has the path and advice. Otherwise PostgreSQL or the handler would fail later."""
    refused = refusal(value)

    assert path == refused.path
    assert words in refused.reason
    assert f"{path} {refused.reason}" == str(refused)


def test_sixty_four_levels_are_the_limit() -> None:
    """This is far below the limit of any reader. The payload itself is the first level."""
    assert nested(64) == payload.decode(payload.encode(nested(64)))
    assert "nested deeper than 64 levels" in refusal(nested(65)).reason


def test_a_cycle_is_refused() -> None:
    """It raises no RecursionError. The shortened path shows the cycle."""
    loop: dict[str, Any] = {"me": []}
    loop["me"].append(loop)
    order = Order(None)
    order.items = order

    refused = refusal(loop)

    assert "or in itself" in refused.reason
    assert "payload.me[0].me[0].me[0].me[0]….me[0].me[0]" == refused.path
    assert "or in itself" in refusal(order).reason


def test_the_size_limit_counts_bytes_of_text() -> None:
    """Characters of several bytes, escapes and separators count as in PostgreSQL."""
    value = {"a": "é" * 10, "b": ["\n"]}
    size = len(payload.encode(value).encode())

    assert payload.encode(value, bytes_max=size)
    refused = refusal(value, bytes_max=size - 1)
    assert "payload" == refused.path
    assert f"takes {size} bytes of JSON text, more than the {size - 1} allowed" in refused.reason


def test_the_default_limit_is_256_kib() -> None:
    """The message has the actual size and the limit, so that the user knows how much to cut."""
    overhead = len('{"a": ""}')

    assert payload.encode({"a": "x" * (262_144 - overhead)})
    refused = refusal({"a": "x" * (262_145 - overhead)})
    assert "takes 262,145 bytes of JSON text, more than the 262,144 allowed" in refused.reason


@pytest.mark.parametrize(
    ("value", "path", "size"),
    [
        (Endless(), "payload", "more than 1,048,576"),
        ({"a": EndlessList()}, "payload", "more than 1,048,576"),
        ({"a": "x" * 50_000_000}, "payload.a", "more than 50,000,000"),
        ({"x" * 50_000_000: 1}, f'payload["{"x" * 64}…"]', "more than 50,000,000"),
        ({"a": bytes(50_000_000)}, "payload.a", "more than 50,000,000"),
        ({"a": [["x" * 1000] * 1000] * 1000}, "payload", "more than 1,048,576"),
    ],
    ids=["endless mapping", "endless list", "text", "key", "bytes", "a billion laughs"],
)
def test_the_walk_stops_soon_after_the_limit(value: object, path: str, size: str) -> None:
    """A value whose text has a gigabyte is refused before the text is written. The message has the bytes counted so
    far."""
    refused = refusal(value)

    assert path == refused.path
    assert f"takes {size} bytes" in refused.reason


def test_siblings_do_not_count_as_levels() -> None:
    """A container that is complete no longer counts for the depth or the path."""
    siblings: list[object] = [{"a": []} for _ in range(100)]

    assert payload.encode({"siblings": siblings})
    assert "payload.siblings[100]" == refusal({"siblings": [*siblings, math.nan]}).path


@pytest.mark.parametrize("value", [Raising(), Order(Raising()), [Raising()]], ids=["itself", "field", "item"])
def test_an_error_of_the_callers_code_is_chained(value: object) -> None:
    """Encoding runs properties and iterators. Their error is the cause, and the refusal does not repeat its text."""
    refused = refusal({"a": value})

    assert refused.path.startswith("payload.a")
    assert "cannot be read, it raised ZeroDivisionError" in refused.reason
    assert isinstance(refused.__cause__, ZeroDivisionError)
    assert SECRET not in str(refused)


@pytest.mark.parametrize(
    "value", [SECRET + "\0", SECRET + "\ud800", SECRET.encode() * 300_000, Order({SECRET}), SECRET * 100_000]
)
def test_no_refusal_shows_a_value(value: object) -> None:
    """A payload may contain secrets, and refusals are logged."""
    assert SECRET not in str(refusal({"a": value}))


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("name", ".name"),
        ("имя", ".имя"),
        ("a b", '["a b"]'),
        ("", '[""]'),
        ('"\\', '["\\"\\\\"]'),
        ("\x1b[2J", '["\\u001b[2J"]'),
        ("\u202e", '["\\u202e"]'),
        ("k" * 64, "." + "k" * 64),
        ("k" * 65, '["' + "k" * 64 + '…"]'),
    ],
)
def test_a_key_in_a_path_is_short_and_safe_to_print(key: str, shown: str) -> None:
    """A hostile key must not reach a terminal or a log unescaped."""
    assert f"payload{shown}" == refusal({key: math.nan}).path


def test_a_result_may_be_any_json_value() -> None:
    """A handler may return any JSON value, under the same rules."""
    assert ["null", "[1, 2]", '"done"'] == [payload.encode_result(value) for value in (None, (1, 2), "done")]
    with pytest.raises(PayloadRefused, match=r"^result\[0\] is nan"):
        payload.encode_result([math.nan])
    with pytest.raises(PayloadRefused, match=r"^result takes 6 bytes"):
        payload.encode_result("four", bytes_max=5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1' + "0" * 4300 + "}", "out of range"),
        ('{"a": 1' + "0" * 400 + ".0}", "out of range"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "recursion"),
        ("[1]", "must be a JSON object, not list"),
        ('{"a": NaN}', "malformed"),
        ('{"a"', "truncated"),
        ('{"a": "\ud800"}', "surrogate"),
    ],
    ids=["digits", "infinity", "depth", "array", "not JSON", "cut", "surrogate"],
)
def test_stored_text_that_python_cannot_read_is_refused(text: str, words: str) -> None:
    """Plain SQL can store it. It must fail its own task and no other."""
    with pytest.raises(PayloadRefused, match=words) as caught:
        payload.decode(text)

    assert caught.value.reason.startswith("cannot be read back: ")


def test_any_stored_value_is_read() -> None:
    """A result may be other than an object. Integers stay exact up to the longest that is allowed."""
    values = [None, [1], 10**4300 - 1, -(10**4299) + 1]

    assert values == [payload.decode_any(payload.encode_result(value)) for value in values]


characters = st.characters(exclude_categories=())  # surrogates and NUL as well
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(2**2000), max_value=2**2000)
    | st.floats()
    | st.sampled_from([1e23, -1e16, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 1e-7, -0.0])
    | st.text(characters, max_size=20)
)
names = st.text(characters, max_size=4)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,  # 2,000 examples take 3 seconds so, and 9 without this limit
)
payloads = st.dictionaries(names, values, max_size=4)


def hostile(value: object) -> bool:
    """Return whether jsonb cannot store this, without the help of the codec."""
    match value:
        case dict():
            return any(hostile(key) or hostile(item) for key, item in value.items())
        case list():
            return any(hostile(item) for item in value)
        case str():
            return any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value)
        case float():
            return not math.isfinite(value)
        case _:
            return False


def alike(left: object, right: object) -> bool:
    """Return whether two values and their types are equal: 1, 1.0 and True are three different values."""
    match left, right:
        case dict(), dict():
            return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
        case list(), list():
            return len(left) == len(right) and all(map(alike, left, right))
        case _:
            return type(left) is type(right) and left == right


# All examples share the connection: each is one SELECT, which changes nothing.
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=payloads)
def test_payloads_come_back_equal_or_are_refused_at_the_call(
    connection: psycopg.Connection[Any], value: dict[str, Any]
) -> None:
    """Values that PostgreSQL would refuse or change are refused before. All others come back unchanged."""
    if hostile(value):
        refusal(value)
        return
    text = payload.encode(value)
    row = connection.execute(
        "SELECT stored::text, octet_length(stored::text) FROM (SELECT %s::jsonb AS stored) AS s", [text]
    ).fetchone()

    assert row is not None
    stored, size = row
    assert alike(value, payload.decode(stored))
    assert len(text.encode()) - text.count("-0.0") <= size <= len(text.encode())
