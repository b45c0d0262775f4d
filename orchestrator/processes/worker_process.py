"""The parent's side of one worker process: start it, read its messages, stop it, and note its end.

It is a separate program in its own session, so Ctrl-C at the terminal reaches only the parent. `parent_connection`
lists the messages between them.

The parent polls the child's status here, at each SIGCHLD, instead of using asyncio. asyncio's watcher waits for the end
in a thread: if other code signals the child at that moment, it polls, too, and takes the status, and the watcher then
reports an exit code of 255.
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

from orchestrator.processes import exit_codes

# A child sends its metrics as one line a second: some megabytes with hundreds of queues and types.
LINE_BYTES_MAX = 64 * 1024 * 1024

Command = Callable[[int], Sequence[str]]
"""Makes the command line of a child from the descriptor of the child's end of the connection."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A worker's message when it serves. Only the worker has read the application's settings."""

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
        """Start one. Its output goes where the parent's output goes."""
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
        """Yield its Serving message, then its metrics, until it is gone. Ignore an unfinished line at the end."""
        with suppress(ConnectionError, ValueError):
            # Ends: the child ends.
            while (line := await self._reader.readline()).endswith(b"\n"):
                message = json.loads(line)
                if "stopped" in message:
                    self.announced_its_stop = True
                else:
                    yield Serving(**message) if "grace_seconds" in message else message

    def look(self) -> None:
        """Check whether it has ended. Called at each SIGCHLD."""
        status = self._process.poll()
        if status is not None and not self._status.done():
            self._status.set_result(status)

    async def ended(self) -> int:
        """Wait for its end. Return an exit code, or -n for signal n."""
        return await self._status

    @property
    def crashed_with_success(self) -> bool:
        """Whether it has the exit code of a clean stop but did not announce one: a handler or the application has
        called os._exit."""
        return self._status.result() in exit_codes.CLEAN and not self.announced_its_stop

    def stop(self) -> None:
        """Let it finish its running tasks and end."""
        self._say("stop")

    def hurry(self) -> None:
        """Let it release its running tasks and end."""
        self._say("hurry")

    def kill(self) -> None:
        """Kill it at once, with every process that its handlers have started."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def _say(self, word: str) -> None:
        self._writer.write(f"{word}\n".encode())
        # While it still imports the application it does not read that message. The signal then ends it.
        self._process.terminate()
