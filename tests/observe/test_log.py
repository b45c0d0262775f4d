"""The lines on standard error."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from orchestrator import events, observe


class Unbuffered(io.StringIO):
    """Remembers each write, as an unbuffered file would make each a call of the system."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


@pytest.fixture
def stderr(monkeypatch: pytest.MonkeyPatch) -> Iterator[Unbuffered]:
    """Standard error, with lines for events on it."""
    file = Unbuffered()
    monkeypatch.setattr(sys, "stderr", file)
    structlog.reset_defaults()
    stop = observe.follow()
    yield file
    stop()
    structlog.reset_defaults()


def test_a_line_is_written_at_once_with_its_end(stderr: Unbuffered) -> None:
    """Several processes write to one standard error, and their lines must not mix."""
    events.emit(events.ChildStarted(1, 4711))

    (written,) = stderr.writes
    assert "\n" == written[-1]
    assert ("child started", 4711) == (json.loads(written)["event"], json.loads(written)["pid"])
