"""The values that a command line may hold: spans of time, moments, JSON. An error message gives an example."""

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from orchestrator.errors import PayloadRefused
from orchestrator.task import duration, payload

# Sixty times the largest payload. Longer input is refused without being read to its end.
INPUT_BYTES_MAX = 16_000_000


def span(text: str) -> timedelta:
    """Read a span of time: 90s, 5m, 1h30m, 2d, 1w, or a number of seconds."""
    try:
        return timedelta(seconds=duration.seconds("it", number_or_text(text)))
    except ValueError:
        raise click.BadParameter(
            f"{duration.shown(text)} is no span of time; write 90s, 5m, 1h30m, 2d or 1w"
        ) from None


def time(text: str) -> datetime:
    """Read a moment in ISO 8601. A zone is required: without one, the moment depends on the session."""
    example = f"write for example {datetime.now(UTC):%Y-%m-%dT%H:%M}Z"
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{duration.shown(text)} is no point in time; {example}") from None
    if read.utcoffset() is None:
        raise click.BadParameter(f"{duration.shown(text)} has no time zone; {example}")
    return read


def json_object(text: str) -> dict[str, Any]:
    """Read a JSON object; `-` reads it from standard input."""
    try:
        return payload.decode(read_input() if text == "-" else text)
    except PayloadRefused as error:
        reason = error.reason.removeprefix("cannot be read back: ")
        raise click.BadParameter(f"write a JSON object, for example '{{\"user_id\": 1}}': {reason}") from None


def read_input() -> str:
    data = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise click.BadParameter(f"what comes in on standard input is longer than {INPUT_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise click.BadParameter("what comes in on standard input is not UTF-8") from None


def number_or_text(text: str) -> float | str:
    """Return a bare number, which means seconds, as a float."""
    try:
        return float(text)
    except ValueError:
        return text
