"""A span of time as people write one: "5m", "1h30m", a timedelta, or a number of seconds. Pure."""

import re
from datetime import timedelta

Duration = timedelta | float | str

UNIT_SECONDS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
# Each unit at most once, the larger before the smaller: "30m1h" is probably a typing error.
WRITTEN = re.compile(
    r"\s*".join(rf"(?:(?P<{unit}>\d+(?:\.\d+)?){unit}(?![a-z]))?" for unit in UNIT_SECONDS), re.ASCII
)
# A longer span is probably a wrong unit. The bound also keeps sums of time within the range of a timestamp. It is 100
# years of 360 days, as PostgreSQL compares intervals, as in the tables' constraints and the schema's functions.
SECONDS_MAX = 100 * 360 * 86_400.0
SHOWN_CHARACTERS_MAX = 64
FORMS = 'a timedelta, a number of seconds, or text such as "90s", "5m", "1h30m", "2d", "1w" or "500ms"'


def seconds(name: str, value: Duration) -> float:
    """Return a span of time in seconds. The ValueError says what `name` must be."""
    span = spelled_out(value) if isinstance(value, str) else value
    if isinstance(span, timedelta):
        span = span.total_seconds()
    if isinstance(span, bool) or not isinstance(span, int | float) or span != span:
        raise ValueError(f"{name} is {shown(value)}; it must be {FORMS}")
    if not 0 <= span <= SECONDS_MAX:
        raise ValueError(f"{name} is {shown(value)}; it must lie between 0 and 100 years")
    return float(span)


def spelled_out(text: str) -> float | None:
    """Return the sum of the parts of a text, in seconds; None if it is no span of time."""
    found = WRITTEN.fullmatch(text.strip())
    parts = {unit: number for unit, number in found.groupdict().items() if number} if found else {}
    if not parts:
        return None
    return sum(float(number) * UNIT_SECONDS[unit] for unit, number in parts.items())


def shown(value: object) -> str:
    """Return a refused value as text, cut to 64 characters; its type, if Python cannot write it."""
    if isinstance(value, str | bytes | bytearray) and len(value) > SHOWN_CHARACTERS_MAX:
        value = value[: SHOWN_CHARACTERS_MAX + 1]  # do not write ten megabytes only to cut them
    try:
        written = repr(value)
    except (
        Exception
    ):  # Python writes no number of more than 4300 digits, and a class may have a __repr__ that raises
        return f"a value of type {type(value).__name__}"
    return cut(written)


def cut(text: str, characters_max: int = SHOWN_CHARACTERS_MAX) -> str:
    """Return a text, or its beginning."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}…"
