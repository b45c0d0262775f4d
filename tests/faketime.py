"""A process with its own wall clock, through libfaketime (Debian: apt-get install libfaketime).

Monotonic time does not change, as with a real change of the clock. Debian's 0.9.10 fails in Python's `time.sleep`,
so a handler under it waits in another way.
"""

from collections.abc import Mapping
from pathlib import Path

LIBRARY = next(iter(Path("/usr/lib").glob("*/faketime/libfaketime.so.1")), None)
MISSING = "libfaketime is not installed; Debian: apt-get install libfaketime"


class Jumping:
    """A clock that is moved while its processes run: it stands in a file, at which they look once a second."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "faketime"
        self.set(0)
        self._file.chmod(0o644)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to go by it."""
        return {**_common(), "FAKETIME_TIMESTAMP_FILE": str(self._file), "FAKETIME_CACHE_DURATION": "1"}

    def set(self, seconds: int) -> None:
        """Be so many seconds ahead, or behind."""
        self._file.write_text(f"{seconds:+d}s\n")


def shifted(seconds: int) -> Mapping[str, str]:
    """Return what a process needs to be so many seconds ahead, or behind, all the time."""
    return {**_common(), "FAKETIME": f"{seconds:+d}s"}


def _common() -> dict[str, str]:
    # Two names: 0.9.10 asks for the first, newer ones for the second.
    still = dict.fromkeys(("DONT_FAKE_MONOTONIC", "FAKETIME_DONT_FAKE_MONOTONIC"), "1")
    return {"LD_PRELOAD": str(LIBRARY), **still}
