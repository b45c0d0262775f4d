"""Written into a folder as `python` and `orchestrator`, in front of ours in PATH: has ours run by the nursery.

It is what a shell started: hands on its descriptors, its surroundings and the signals it is sent, and ends as the
program ends. Loads next to nothing, to start in 15 ms: `_socket` and `_signal` are built in. Standalone: it finds the
nursery's socket beside its own folder, and what it stands in for beside the interpreter that runs it.
"""

# ruff: noqa: S606 - the program is the one that was asked for.

import _signal  # type: ignore[import-not-found] # built in, and not in typeshed
import _socket
import os
import sys

RELAYED = (1, 2, 3, 10, 12, 15)

here, name = os.path.split(os.path.abspath(sys.argv[0]))
program = os.path.join(os.path.dirname(sys.executable), name)
# Who looks for itself in PATH is to find ours.
os.environ["PATH"] = ":".join(folder for folder in os.environ.get("PATH", "").split(":") if folder != here)
umask = os.umask(0o077)
os.umask(umask)
ignored = [number for number in RELAYED if _signal.getsignal(number) == _signal.SIG_IGN]
order = {
    "args": [program, *sys.argv[1:]],
    "cwd": os.getcwd(),
    "env": dict(os.environ),
    "umask": umask,
    "ignored": ignored,
    "wishes": [],
    "tied": True,
}
text = ascii(order).encode()
line = _socket.socket(_socket.AF_UNIX)
line.connect(os.path.join(os.path.dirname(here), "socket"))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
line.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
line.sendall(text)
_said, handles, _flags, _sender = line.recvmsg(64, _socket.CMSG_SPACE(4))
if not handles:
    line.close()
    os.execv(program, [program, *sys.argv[1:]])
child = int.from_bytes(handles[0][2][:4], sys.byteorder)


def relay(number: int, _frame: object) -> None:
    """Hand on a signal."""
    try:
        _signal.pidfd_send_signal(child, number)
    except ProcessLookupError:
        # Its status is under way.
        return


for number in RELAYED:
    if number not in ignored:
        _signal.signal(number, relay)
said = line.recv(64)
status = int(said) if said else -9
if status < 0:
    if status != -9:
        _signal.signal(-status, _signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
