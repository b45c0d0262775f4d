"""A worker process, as its parent sees it: started, heard of, told, and gone.

It is a program of its own, in a session of its own, so that Ctrl-C at the terminal reaches the parent alone. What is
said on the line between them stands in `parent_connection`.

Its end is looked for here, at each SIGCHLD, and not by asyncio, whose watcher waits for it in a thread: whoever signals
a child just then looks, too, takes its status away, and the watcher makes an exit code of 255 of it.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess  # nosec B404 # each call says what it starts
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from orchestrator.worker import exit_codes

# The numbers of a child, one line a second: of hundreds of queues and types, some megabytes.
LINE_BYTES_MAX = 64 * 1024 * 1024

Command = Callable[[int], Sequence[str]]
"""Makes the command line of a child; it is given the descriptor of its end of the line."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a worker says of itself when it serves. None but it has read the application's settings."""

    grace_seconds: float
    embedded: str | None


class Child:
    """One worker process."""

    def __init__(
        self, process: subprocess.Popen[bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reader = reader
        self._writer = writer
        self.announced_its_stop = False

    @classmethod
    async def start(cls, command: Command) -> Self:
        """Start one; what it writes goes where ours goes."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = subprocess.Popen(  # nosec B603 # noqa: S603, ASYNC220 - our own command; returns when it runs
                    command(theirs.fileno()), stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        child = cls(process, *await asyncio.open_connection(sock=ours, limit=LINE_BYTES_MAX))
        child.look()
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def messages(self) -> AsyncIterator[Serving | dict[str, Any]]:
        """Yield that it serves, then its numbers, until it is gone. An unfinished line at the end is ignored."""
        with suppress(ConnectionError, ValueError):
            # Ends: with the child.
            while (line := await self._reader.readline()).endswith(b"\n"):
                message = json.loads(line)
                if "stopped" in message:
                    self.announced_its_stop = True
                else:
                    yield Serving(**message) if "grace_seconds" in message else message

    def look(self) -> None:
        """Look whether it has ended; to be called at each SIGCHLD."""
        status = self._process.poll()
        if status is not None and not self._status.done():
            self._status.set_result(status)

    async def ended(self) -> int:
        """Wait for its end, and return how it ended: an exit code, or -n for signal n."""
        return await self._status

    @property
    def crashed_with_success(self) -> bool:
        """Whether its exit code is that of a clean stop and it has not announced one: a handler or the application
        has called os._exit."""
        return self._status.result() in exit_codes.CLEAN and not self.announced_its_stop

    def stop(self) -> None:
        """Let it finish what it runs, and end."""
        self._say("stop")

    def hurry(self) -> None:
        """Let it give back what it runs, and end."""
        self._say("hurry")

    def kill(self) -> None:
        """End it at once, with all that its handlers have started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of the line."""
        self._writer.close()

    def _say(self, word: str) -> None:
        self._writer.write(f"{word}\n".encode())
        # While it still imports the application nobody reads that, and this ends it.
        self._process.terminate()
