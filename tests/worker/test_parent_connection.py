"""The child's end of the connection to its parent, when there is no worker yet, or none that can be informed."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.forked import REPOSITORY
from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import surroundings

HOLDS = """
import signal, sys, threading
from orchestrator.processes import parent_connection
parent_connection.MARGIN_SECONDS = 0.1
"""
TAKES = "parent_connection.ParentConnection(int(sys.argv[1])).hold()\n"
LOADS = """
print("held", flush=True)
threading.Event().wait(600)
"""
# It ends with standard input, which is the test's.
STARTS = """
import subprocess
subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], close_fds=False)
"""


@contextmanager
def held(program: str) -> Iterator[tuple[socket.socket, subprocess.Popen[str]]]:
    """Run a program that holds a line; give the parent's end of it."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            child = subprocess.Popen(
                [sys.executable, "-c", program, str(theirs.fileno())], pass_fds=[theirs.fileno()],
                env=surroundings(None), cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
        with child:
            try:
                assert child.stdout is not None
                assert "held\n" == child.stdout.readline()
                yield ours, child
            finally:
                child.kill()


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (HOLDS + TAKES + LOADS, -signal.SIGTERM),
        (HOLDS + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + TAKES + LOADS, 1),
    ],
    ids=["while it loads the application", "when it cannot be told"],
)
def test_the_end_of_the_parent_ends_the_child(program: str, status: int) -> None:
    """At once where there is nothing to finish; without mercy when its time is over."""
    with held(program) as (line, child):
        line.close()
        assert status == child.wait(PATIENCE_SECONDS)


def test_a_program_that_the_child_starts_does_not_hold_the_line() -> None:
    """Or the parent would take it for the child."""
    with held(HOLDS + TAKES + STARTS + LOADS) as (line, child):
        child.kill()
        line.settimeout(PATIENCE_SECONDS)

        assert b"" == line.recv(1)
