"""The fast way to write a payload. It writes the same text as the walk (`payload.Writer`), or it leaves the value to
the walk."""

import json
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import PayloadRefused
from orchestrator.task import payload, payload_fast

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) + 1]),
    st.floats(),
    st.text(),
    st.text(st.characters(codec="ascii")),
    st.binary(),
)
VALUES = st.one_of(LEAVES, st.lists(LEAVES, max_size=3), st.dictionaries(st.text(), LEAVES, max_size=3))
PAYLOADS = st.dictionaries(
    st.one_of(st.text(), st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.integers()), VALUES, max_size=25
)
USUAL = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}", fullmatch=True),
    st.one_of(st.none(), st.booleans(), st.integers(-(2**62), 2**62), st.text(st.characters(codec="ascii"))),
    max_size=20,
)


class Name(StrEnum):
    A = "a"


class Number(IntEnum):
    ONE = 1


class Text(str):
    """A subclass of str."""

    __slots__ = ()


class Members(dict[str, Any]):
    """A subclass of dict whose items() differs from its content."""

    def items(self) -> Any:
        return [("lie", 1)]


def walked(value: object) -> str:
    return payload.Writer("payload", payload.PAYLOAD_BYTES_MAX).run(value)


@given(value=PAYLOADS)
def test_the_fast_way_writes_the_same_as_the_walk(value: dict[Any, Any]) -> None:
    """This holds for any value. The fast way does not accept a value that the walk refuses."""
    written = payload_fast.written(value)
    if written is None:
        return
    assert walked(value) == written == payload.encode(value)
    assert written.isascii()


@given(value=USUAL)
def test_the_fast_way_accepts_the_usual_payload(value: dict[str, Any]) -> None:
    """Otherwise it would save nothing. Text with NUL is left to the walk."""
    written = payload_fast.written(value)
    if any("\x00" in item for item in value.values() if isinstance(item, str)):
        assert None is written
    else:
        assert written is not None
        assert walked(value) == written
        assert value == json.loads(written)


@pytest.mark.parametrize(
    "value",
    [
        {"a": Name.A}, {"a": Number.ONE}, {"a": Text("a")}, {Text("a"): 1}, {Name.A: 1}, {1: 1}, {"": 1}, {"a b": 1},
        {"é": 1}, {"a": "é"}, {"a": "\x00"}, {"a": "\ud800"}, {"a": 1.0}, {"a": 2**63}, {"a": [1]}, {"a": {}},
        {"a": "x" * 1_001}, {f"a{n}": n for n in range(21)}, Members(a=1), [1], "a", None,
    ],
    ids=repr,
)  # fmt: skip
def test_unusual_values_are_left_to_the_walk(value: Any) -> None:
    """Subclasses are left too: they may have their own encoding."""
    assert None is payload_fast.written(value)


def test_the_size_limit_holds_for_the_fast_way() -> None:
    """A payload above the limit is refused by the walk, with the walk's message."""
    with pytest.raises(PayloadRefused, match="payload takes 13 bytes of JSON text, more than the 12 allowed"):
        payload.encode({"a": "xxxx"}, bytes_max=12)

    assert '{"a": "xxxx"}' == payload.encode({"a": "xxxx"}, bytes_max=13)
