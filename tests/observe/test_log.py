"""The lines on standard error."""

import io
import json
import sys
from collections.abc import Iterator

import pytest
import structlog

from orchestrator import events, observe
from orchestrator.observe import lines, log


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
    # pytest's own handlers on the root logger are nobody's wish.
    monkeypatch.setattr(lines, "logging_is_configured", lambda: False)
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


def test_the_same_is_not_said_again_at_once_and_another_reason_is(stderr: Unbuffered) -> None:
    """While the database is away hundreds say so a minute; why it cannot be reached any more is news."""
    for reason in ("closed", "closed", "certificate verify failed", "closed"):
        events.emit(events.ConnectionLost("claims", reason))

    assert ["closed", "certificate verify failed"] == [json.loads(line)["reason"] for line in stderr.writes]


def test_what_was_said_is_not_remembered_without_end() -> None:
    """A reason may hold an address, or a number, that is never the same again."""
    news = log.News()
    for n in range(10 * log.SAID_MAX):
        assert 0 == news.of(events.ConnectionLost("claims", f"reason {n}"))

    assert log.SAID_MAX == len(news._said)
