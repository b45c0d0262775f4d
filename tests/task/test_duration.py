"""Durations in the forms that users write."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.task import duration


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("5m", 300.0),
        ("1h30m", 5_400.0),
        ("1h 30m", 5_400.0),
        (" 90s ", 90.0),
        ("2d", 172_800.0),
        ("1w", 604_800.0),
        ("500ms", 0.5),
        ("1m5ms", 60.005),
        ("1.5h", 5_400.0),
        ("0s", 0.0),
        (timedelta(minutes=5), 300.0),
        (90, 90.0),
        (0.25, 0.25),
    ],
)
def test_valid_forms_of_a_duration_are_read(written: duration.Duration, seconds: float) -> None:
    """Text, a timedelta, or a number of seconds."""
    assert seconds == duration.seconds("delay", written)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "5",
        "5M",
        "30m1h",
        "1h1h",
        "-5m",
        "1e3s",
        "5 minutes",
        "٣m",
        "m",
        b"5m",
        None,
        True,
        float("nan"),
        [5],
    ],
    ids=repr,
)
def test_an_invalid_duration_is_refused_with_the_valid_forms(written: Any) -> None:
    """Text without a unit is invalid: a reader may take it for minutes."""
    with pytest.raises(ValueError, match=r"^key_window is .*; it must be a timedelta, .*1h30m"):
        duration.seconds("key_window", written)


@pytest.mark.parametrize(
    "written", [-1, -0.5, timedelta(-1), 1e300, 10**400, float("inf"), "9999w"], ids=repr
)
def test_a_duration_is_between_zero_and_a_hundred_years(written: duration.Duration) -> None:
    """Beyond this, the unit is probably wrong."""
    with pytest.raises(ValueError, match="it must lie between 0 and 100 years"):
        duration.seconds("timeout", written)


def test_a_refusal_stays_short() -> None:
    """The message shortens a long value."""
    with pytest.raises(ValueError, match="…") as refusal:
        duration.seconds("delay", "x" * 1_000_000)

    assert len(str(refusal.value)) < 250


@given(st.integers(0, 50_000_000))
def test_parts_add_up(whole_seconds: int) -> None:
    """Days, hours, minutes and seconds from divmod give the same number of seconds again."""
    minutes, seconds = divmod(whole_seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)

    assert whole_seconds == duration.seconds("delay", f"{days}d{hours}h{minutes}m{seconds}s")
