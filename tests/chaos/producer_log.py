"""A producer's journal on disk: its intent before it enqueues, and the answer afterwards.

One line each, in JSON. A producer that is killed in between leaves an intent without a verdict, which is in doubt.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ACKNOWLEDGED, IN_DOUBT, REFUSED, ROLLED_BACK = "acknowledged", "in doubt", "refused", "rolled back"


class Item(NamedTuple):
    """One task to enqueue; `meant` is false for a task that its producer rolls back to a savepoint."""

    token: str
    type: str
    key: str | None = None
    meant: bool = True


class Line(NamedTuple):
    """One task and its result, as far as its producer knows."""

    producer: str
    n: int
    way: str
    token: str
    type: str
    key: str | None
    verdict: str
    task_id: int | None
    at: float
    said: str | None


class Journal:
    """The journal of one producer, for writing."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def intend(self, n: int, way: str, items: Sequence[Item]) -> None:
        """Record the intent."""
        self._write({"n": n, "way": way, "at": time.time(), "items": items})

    def conclude(self, n: int, verdict: str, ids: Sequence[int] = (), said: str | None = None) -> None:
        """Record the result; the ids are those of the intended items."""
        self._write({"n": n, "verdict": verdict, "ids": list(ids), "said": said})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._file, (json.dumps(line) + "\n").encode())
        os.fsync(self._file)


def read(path: Path) -> Iterator[Line]:
    """Yield the journal's record of each task; holds one intent at a time."""
    intent: dict[str, Any] | None = None
    with path.open() as file:
        for text in file:
            if not text.endswith("\n"):
                break
            line = json.loads(text)
            if "items" in line:
                if intent is not None:
                    yield from concluded(path.stem, intent, {"verdict": IN_DOUBT, "said": "killed"})
                intent = line
            elif intent is not None:
                yield from concluded(path.stem, intent, line)
                intent = None
    if intent is not None:
        yield from concluded(path.stem, intent, {"verdict": IN_DOUBT, "said": "killed"})


def concluded(producer: str, intent: dict[str, Any], end: dict[str, Any]) -> Iterator[Line]:
    """Yield the result of each item: an item that was not meant is rolled back, at any result of the others."""
    ids = iter(end.get("ids") or ())
    for token, kind, key, meant in intent["items"]:
        verdict = end["verdict"] if meant else ROLLED_BACK
        task_id = next(ids, None) if meant and verdict == ACKNOWLEDGED else None
        yield Line(
            producer,
            intent["n"],
            intent["way"],
            token,
            kind,
            key,
            verdict,
            task_id,
            intent["at"],
            end.get("said"),
        )
