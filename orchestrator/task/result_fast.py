"""Write a result at once if it is short and plain. `payload.encode_result` writes all others, off the event loop: to
walk a large value takes a while, and the code of a user's class may do anything.
"""

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import NoReturn
from uuid import UUID

from orchestrator.task.payload import Writer

# The walk takes 50 µs for this many.
_BRIEF_BYTES_MAX = 4_096
_OF_PYTHON = frozenset({date, timedelta, UUID, Decimal, bytes})


def encode_fast(value: object, *, bytes_max: int) -> str | None:
    """Return a result as `encode_result` does, if it is short and of plain types; None if the walk would take a while,
    or would run the code of a user's class."""
    return _BriefWriter("result", min(bytes_max, _BRIEF_BYTES_MAX)).run_briefly(value)


class _TooMuch(Exception):
    """This value is not brief."""


class _BriefWriter(Writer):
    """Stops if there is much to write, and before it runs code that is not Python's own."""

    __slots__ = ()

    def run_briefly(self, value: object) -> str | None:
        try:
            self.write(value)
        except (_TooMuch, RecursionError):
            return None
        return "".join(self.parts) if self.size <= self.bytes_max else None

    def write_other(self, value: object) -> None:
        if not _is_of_python(value):
            raise _TooMuch
        super().write_other(value)

    def plain_key(self, key: object) -> str:
        raise _TooMuch

    def refuse_size(self, path: str, size: str) -> NoReturn:
        raise _TooMuch


def _is_of_python(value: object) -> bool:
    """Tell whether a value and its parts are of Python's own types."""
    kind = type(value)
    return kind in _OF_PYTHON or (
        kind is datetime and (value.tzinfo is None or type(value.tzinfo) is timezone)  # type: ignore[attr-defined]  # mypy does not narrow by `is`
    )
