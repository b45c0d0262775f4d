"""The worker's side of one child process: start it, send it a task, kill it, wait for its end.

A thread starts it and waits for its end, for two reasons. Starting a process blocks for some milliseconds; and on Linux
a child is killed when the *thread* that started it ends, so that thread has to last as long as the child.

It is a new interpreter, never a fork: our process has threads and libpq's sockets, and a fork copies locks that other
threads hold at that moment, and TLS sessions that two processes would then write to. It leads its own session: Ctrl-C
does not reach it, and killing its group also kills the processes that its handler has started.
"""

import asyncio
import os
import re
import signal
import socket
import subprocess  # nosec B404 # each call says what it starts
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from orchestrator.errors import ExecutorCrashed
from orchestrator.execute.child_protocol import ANSWERS, LENGTH, Answer, Order, framed

# The child gets the worker's sys.path, so it imports the same modules. -P: it does not import from the folder it starts
# in. -u: a handler's output is not lost when the child is killed.
INTERPRETER_OPTIONS = ("-P", "-u")
# The program of the process. It connects two rooms, as the worker does.
PROGRAM = (
    "import sys; sys.path[:] = sys.argv[4:]; from orchestrator.execute import child_main; "
    "from orchestrator.observe import continued; child_main.main(continued)"
)

# A handler must not get the worker's own access to the database.
# ORCHESTRATOR_DATABASE_URL, or the variable of a command's --url, for instance ORCHESTRATOR_WORKER_URL.
SECRETS = re.compile(r"ORCHESTRATOR_\w+_URL|PGPASSWORD|PGPASSFILE")


class Unbegun(Exception):
    """The child was gone before it took the order, so the handler has not begun."""


class Child:
    """A process that runs one handler at a time. All methods run on the event loop, except those of its thread."""

    def __init__(self, *, ended: Callable[["Child"], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_end = ended
        self._end: asyncio.Future[str] = self._loop.create_future()
        # Guards the attributes below. Also prevents a kill after another process has got the child's pid.
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_killed = self._is_asked = self._is_gone = False
        self._line, theirs = socket.socketpair()
        self._line.setblocking(False)
        life, self._life = os.pipe()
        thread = threading.Thread(
            target=self._live, args=[theirs, life], name="orchestrator-child", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system refuses a new thread
            for end in (self._line, theirs):
                end.close()
            for end_of_life in (life, self._life):
                os.close(end_of_life)
            raise

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._end.done()

    async def run(self, order: Order) -> Answer:
        """Run a task. Unbegun: the process was gone before the handler began. ExecutorCrashed: it died while it ran."""
        with self._lock:
            self._is_asked = not self._is_gone
        if not self._is_asked:
            raise Unbegun(await self._last_words())
        try:
            return await self._run(order)
        finally:
            with self._lock:
                self._is_asked = False
                if self._is_gone:
                    self._line.close()

    async def _run(self, order: Order) -> Answer:
        if not await self._sent(framed(order)) or await self._received() is None:
            raise Unbegun(await self._last_words())
        try:
            body = await self._received()
            if body is not None:
                return ANSWERS.decode(body)
        except msgspec.DecodeError:  # the handler has written to a descriptor that is not its own
            self.kill()
        raise ExecutorCrashed(f"the handler's process {await self._last_words()}")

    def dismiss(self) -> None:
        """Close the orders, so an idle child ends."""
        with suppress(OSError):
            self._line.shutdown(socket.SHUT_WR)

    def kill(self) -> None:
        """Kill it now, with every process that it has started."""
        with self._lock:
            self._is_killed = True
            self._kill_group()

    async def _sent(self, message: bytes) -> bool:
        try:
            await self._loop.sock_sendall(self._line, message)
        except OSError:
            return False
        return True

    async def _received(self) -> bytes | None:
        """Return the next message. None: the connection is closed."""
        length = await self._received_bytes(LENGTH.size)
        if length is None:
            return None
        return await self._received_bytes(*LENGTH.unpack(length))

    async def _received_bytes(self, count: int) -> bytes | None:
        parts, left = [], count
        while left:
            try:
                part = await self._loop.sock_recv(self._line, min(left, 1 << 20))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    async def _last_words(self) -> str:
        """Return how it ended. Its connection is closed, so it has ended; if it has not, kill it."""
        try:
            async with asyncio.timeout(1.0):
                return await asyncio.shield(self._end)
        except TimeoutError:
            self.kill()
            return "closed its line to the worker, and was killed"

    # Its thread.

    def _live(self, theirs: socket.socket, life: int) -> None:
        try:
            end = self._lived(theirs, life)
        except Exception as error:  # a caller waits for the end, whatever the error is
            end = f"could not be started: {error}"
        finally:
            theirs.close()
            os.close(life)
        os.close(self._life)
        with self._lock:
            self._is_gone = True
            # Ends a waiting read, also if a process that the handler has started holds the other end open. Messages
            # that the child sent before can still be read.
            with suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
            if not self._is_asked:
                self._line.close()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._ended, end)

    def _lived(self, theirs: socket.socket, life: int) -> str:
        process = subprocess.Popen(  # nosec B603 # noqa: S603 - our own interpreter and our own program
            [
                sys.executable, *INTERPRETER_OPTIONS, "-c", PROGRAM,
                str(theirs.fileno()), str(life), str(os.getpid()), *map(str, sys.path),
            ],
            env=without_secrets(os.environ),
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), life),
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        with self._lock:
            self._process = process
            if self._is_killed:
                self._kill_group()
        if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on
            # WNOWAIT: while the child is not reaped, no other process can get its group's number.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            with self._lock:
                self._kill_group()
                return ending(process.wait())
        return ending(process.wait())

    def _kill_group(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _ended(self, end: str) -> None:
        self._end.set_result(end)
        self._on_end(self)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: the worker's, without its access to the database."""
    return {name: text for name, text in environment.items() if not SECRETS.fullmatch(name)}


def ending(code: int) -> str:
    """Say how a process ended, by what `wait` returned."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    advice = "; the kernel's OOM killer does that" if -code == signal.SIGKILL else ""
    return f"was killed by signal {-code} ({name}){advice}"
