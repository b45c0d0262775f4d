"""Find every process, ours or the server's, that still uses a folder."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests import servers
from tests.patience import eventually


def processes_of(folder: Path) -> dict[int, str]:
    """Return the pids and command lines that name the folder."""
    return {pid: line for pid, line in command_lines() if str(folder) in line}


def command_lines() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                yield (
                    int(entry.name),
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
                )


def assert_nothing_left(folder: Path) -> None:
    """Wait until nobody is there. The server's children do not name the folder, and hold its lock."""
    eventually(lambda: not processes_of(folder), f"nobody is left of {processes_of(folder)}")
    for lock in folder.rglob("server.lock"):
        servers.wait_until_free(lock)
