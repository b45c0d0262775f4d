"""How spans of time, moments and counts are written for people: each in one way, on every screen."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

NOTHING = "-"
# (seconds of the unit, its letter), the largest first.
UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def span(value: timedelta | float | None) -> str:
    """Write how long, in at most two units: 0.3s, 42s, 3m 20s, 5h 1m, 12d 4h."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 10 and round(seconds, 1) % 1:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    for place, (size, letter) in enumerate(UNITS):
        if whole >= size:
            count, rest = divmod(whole, size)
            size, smaller = UNITS[min(place + 1, len(UNITS) - 1)]
            return f"{count}{letter}" + (f" {rest // size}{smaller}" if rest // size else "")
    return "0s"


def moment(value: datetime | None) -> str:
    """Write a moment in UTC, as the server's logs do."""
    return NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def rate(per_second: float | None) -> str:
    """Write a rate per second; per minute below one a second."""
    if per_second is None:
        return NOTHING
    if per_second == 0:
        return "0/s"
    return f"{per_second * 60:.2g}/min" if per_second < 1 else f"{per_second:,.0f}/s"


def count(value: int | None) -> str:
    """Write how many, in groups of three."""
    return NOTHING if value is None else f"{value:,}"


def shown(value: Any) -> str:
    """Write any value, by its type. A column that needs another form gives its own function."""
    match value:
        case None:
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case timedelta():
            return span(value)
        case float():
            return f"{value:.4g}"
        case list() | tuple():
            return ", ".join(shown(each) for each in value) or NOTHING
        case Mapping():
            return json.dumps(value, default=str)
        case _:
            return str(value)
