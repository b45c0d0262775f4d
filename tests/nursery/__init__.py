"""Start Python programs fast: `Popen` is subprocess's, and the process comes out of a nursery.

Most of what a command of ours costs is loading: 0.7 s of CPU, and a test of it runs several. The nursery is one
process per pytest process, begun at the first order, that has loaded what the commands load. At an order it forks a
child, which makes itself what a fresh interpreter would be (`being`): the order's arguments, environment, folder and
descriptors 0 to 2, its own streams, signals as at birth, nothing else open. It runs the program as `python -m`,
`python -c` or `python FILE` would, and ends as they do. What only a fresh interpreter can do is left to one (`fit`
decides), and the caller does not notice.

    pytest ── order, descriptors ──▶ nursery ── fork ──▶ child
           ◀─ pid, pidfd, at the end its status ─┘

The nursery ends with its standard input, which is pytest's, and its children with it: they are killed. Where Linux's
pidfd is missing, or TESTS_WITHOUT_NURSERY is set, every process is started afresh.

A test of what is loaded, or of what happens meanwhile, starts its process by `subprocess`.
"""

import atexit
import inspect
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
# What the part of Popen that starts a process is given when nothing beyond the usual is asked.
USUAL: dict[str, Any] = {
    "executable": None,
    "preexec_fn": None,
    "close_fds": True,
    "pass_fds": (),
    "shell": False,
    "gid": None,
    "gids": None,
    "uid": None,
    "umask": -1,
    "start_new_session": False,
    "process_group": -1,
}
RELAYED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
USED = hasattr(os, "pidfd_open") and not os.environ.get("TESTS_WITHOUT_NURSERY")


class Popen(subprocess.Popen[Any]):
    """A process, as of `subprocess`; only where it comes from differs, and how its end is learnt."""

    # The line to the nursery on which the status will come; none if the process was started afresh.
    _line: socket.socket | None = None
    _handle: int = -1

    def _execute_child(self, *given: Any) -> None:
        # Overridden, and not wrapped: pipes, text, communicate and the rest are subprocess's. The names of what it is
        # given are those of subprocess in every Python from 3.11.
        fresh = super()._execute_child  # type: ignore[misc] # not in typeshed, being private
        asked = inspect.signature(fresh).bind(*given).arguments
        if not USED or not self._born(asked):
            fresh(*given)
            return
        self._child_created = True
        self._close_pipe_fds(  # type: ignore[attr-defined] # not in typeshed, being private
            *(asked[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"))
        )

    def _born(self, asked: dict[str, Any]) -> bool:
        """Have it born; false if the nursery leaves it to a fresh interpreter."""
        order = {
            "args": words(asked["args"]),
            "cwd": os.path.abspath(os.fsdecode(asked["cwd"] or ".")),
            "env": environment(asked["env"]),
            "umask": current_umask(),
            "ignored": [int(n) for n in RELAYED if signal.getsignal(n) is signal.SIG_IGN],
            "wishes": [name for name, usual in USUAL.items() if asked[name] != usual],
            "tied": False,
        }
        streams = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(folder() / "socket"))
        text = ascii(order).encode()
        files = [n if given == -1 else given for n, given in enumerate(streams)]
        socket.send_fds(line, [len(text).to_bytes(4, "big")], files)
        line.sendall(text)
        said, handles, _, _ = socket.recv_fds(line, 64, 1)
        assert said, "the nursery has died; what it had to say went where pytest's own messages go"
        if not handles:
            line.close()
            return False
        os.set_inheritable(handles[0], False)
        self.pid, self._handle, self._line = int(said), handles[0], line
        return True

    def _internal_poll(self, _deadstate: int | None = None, **given: Any) -> int | None:
        if self._line is None:
            poll = super()._internal_poll  # type: ignore[misc] # not in typeshed, being private
            status: int | None = poll(_deadstate=_deadstate, **given)
            return status
        self._heard(0)
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._line is None:
            wait = super()._wait  # type: ignore[misc] # not in typeshed, being private
            status: int = wait(timeout=timeout)
            return status
        if not self._heard(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode

    def _heard(self, timeout: float | None) -> bool:
        """Wait for the status; false when it has not come in time."""
        if self.returncode is not None:
            return True
        assert self._line is not None
        # Not select.select, which knows no descriptor beyond 1,023.
        waiting = select.poll()
        waiting.register(self._line, select.POLLIN)
        if not waiting.poll(None if timeout is None else max(0.0, timeout) * 1000):
            return False
        with self._waitpid_lock:  # type: ignore[attr-defined] # not in typeshed, being private
            if self.returncode is None:
                # Who says nothing has died, and its children with it.
                self.returncode = int(self._line.recv(64) or -signal.SIGKILL)
        return True

    def send_signal(self, sig: int) -> None:
        """Send a signal, by the handle: never to another process that has its number by now."""
        if self._line is None:
            super().send_signal(sig)
        elif self.poll() is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, sig)

    def __del__(self, *_: Any) -> None:
        # Not at its end, when another thread may be waiting on the line.
        if self._line is not None:
            self._line.close()
            os.close(self._handle)
            self._line = None
        elif self._handle == -1:
            super().__del__()


def run(
    args: Sequence[str | Path],
    *,
    input: str | bytes | None = None,  # noqa: A002 - subprocess's name
    timeout: float | None = None,
    **more: Any,
) -> subprocess.CompletedProcess[Any]:
    """Run a program to its end, as subprocess.run does; what it prints is captured unless it is to go elsewhere."""
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    streams = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Popen(args, **(streams | more)) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def environment(given: Mapping[Any, Any] | None) -> dict[str, str]:
    """Return an environment as text; none is our own."""
    return {os.fsdecode(k): os.fsdecode(v) for k, v in (os.environ if given is None else given).items()}


def words(args: Any) -> list[str]:
    """Return a command line as text."""
    return [os.fsdecode(word) for word in ([args] if isinstance(args, (str, bytes, Path)) else args)]


def current_umask() -> int:
    """Return it; there is no other way than to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def programs() -> str:
    """Return a folder for the front of PATH: its `python` and `orchestrator` stand in for ours, and start at once."""
    return str(folder() / "bin") if USED else str(Path(sys.executable).parent)


@cache
def folder() -> Path:
    """Begin the nursery; return the folder of its socket, which it removes at its end."""
    path = Path(tempfile.mkdtemp(prefix="nursery-"))
    write_programs(path / "bin")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path / "socket"))
        # Who orders while it is still loading waits.
        listener.listen(128)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery", str(listener.fileno()), str(path)],
            cwd=REPOSITORY, pass_fds=[listener.fileno()], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            # Its children add PYTHONPATH's folders, each its own, to where it looks.
            env={
                name: text
                for name, text in os.environ.items()
                if name != "PYTHONPATH" and not name.startswith("ORCHESTRATOR_")
            },
        )  # fmt: skip
    atexit.register(end, process, path, os.getpid())
    return path


def end(process: subprocess.Popen[bytes], path: Path, owner: int) -> None:
    """End the nursery, if it is ours and not that of the process that forked us."""
    if os.getpid() == owner:
        process.communicate()
        shutil.rmtree(path, ignore_errors=True)


def write_programs(path: Path) -> None:
    """Write the stand-ins."""
    path.mkdir()
    text = Path(__file__).with_name("stand_in.py").read_text()
    for name in ("orchestrator", "python"):
        program = path / name
        program.write_text(f"#!{sys.executable} -IS\n{text}")
        program.chmod(0o700)
