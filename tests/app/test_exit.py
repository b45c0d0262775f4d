"""A program that has enqueued on its own pools exits at once and prints nothing of ours, in any way that it ends."""

import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.tiers import long
from tests.worker.running import value

HEAD = """
import asyncio, atexit, os, signal, socket, sys, threading, time, warnings
from orchestrator import Orchestrator

app = Orchestrator(sys.argv[1])

@app.task(name="note")
async def note() -> None: ...

# Python 3.12 and later warn of a fork beside threads; the fork is what these tests are about.
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
"""

# How each ends: its status, the last line of its standard error, and how many tasks it has enqueued.
PROGRAMS: dict[str, tuple[str, int, str, int]] = {
    "a script": ("note.enqueue()", 0, "", 1),
    "an error": ("note.enqueue()\nraise LookupError('mine')", 1, "LookupError: mine", 1),
    "sys.exit": ("note.enqueue()\nsys.exit(7)", 7, "", 1),
    "Ctrl-C": (
        "note.enqueue()\nos.kill(os.getpid(), signal.SIGINT)\nsignal.pause()",
        -signal.SIGINT,
        "KeyboardInterrupt",
        1,
    ),
    "Ctrl-C while it connects": (
        """
with socket.create_server(("127.0.0.1", 0)) as silent:
    app = Orchestrator("postgresql://jane@127.0.0.1:%d/shop?sslmode=disable" % silent.getsockname()[1])

    def interrupt():
        silent.accept()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    app.enqueue("note", {})
""",
        -signal.SIGINT,
        "KeyboardInterrupt",
        0,
    ),
    "a loop": ("asyncio.run(note.aenqueue())", 0, "", 1),
    "a loop and Ctrl-C": (
        """
async def main():
    await note.aenqueue()
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()

asyncio.run(main())
""",
        -signal.SIGINT,
        "KeyboardInterrupt",
        1,
    ),
    "a loop left open": ("asyncio.new_event_loop().run_until_complete(note.aenqueue())", 0, "", 1),
    "both pools of several applications": (
        """
for each in (app, Orchestrator(sys.argv[1])):
    each.enqueue("note", {})
    asyncio.run(each.aenqueue("note", {}))
""",
        0,
        "",
        4,
    ),
    "a thread": ("thread = threading.Thread(target=note.enqueue)\nthread.start()\nthread.join()", 0, "", 1),
    "a thread that outlives the main one": (
        """
def last():
    threading.main_thread().join()
    note.enqueue()
    note.enqueue()

threading.Thread(target=last).start()
""",
        0,
        "",
        2,
    ),
    "a set that outlives the main thread": (
        """
from concurrent.futures import thread

reached = threading.Event()

def items():
    for n in range(2500):
        if n == 1500:
            reached.set()
            while not thread._shutdown:
                time.sleep(0.01)
        yield {}

threading.Thread(target=lambda: note.enqueue_many(items())).start()
reached.wait()
""",
        0,
        "",
        2500,
    ),
    "a fork that enqueues": (
        "note.enqueue()\nif child := os.fork(): os.waitpid(child, 0)\nnote.enqueue()",
        0,
        "",
        3,
    ),
    "a fork that does not": (
        "note.enqueue()\nif child := os.fork(): os.waitpid(child, 0); note.enqueue()",
        0,
        "",
        2,
    ),
    "atexit": ("atexit.register(note.enqueue)\nnote.enqueue()", 0, "", 2),
    "atexit alone": ("atexit.register(note.enqueue)\natexit.register(note.enqueue)", 0, "", 2),
    "atexit on a loop": ("atexit.register(lambda: asyncio.run(note.aenqueue()))", 0, "", 1),
}


# Each is a fresh interpreter, 0.7 s of CPU. The others are long.
ALWAYS = (
    "a script",
    "Ctrl-C",
    "a loop",
    "a set that outlives the main thread",
    "a fork that enqueues",
    "atexit",
)


@pytest.mark.parametrize("program", [name if name in ALWAYS else long(name) for name in PROGRAMS])
def test_a_program_that_has_enqueued_exits_quietly(
    database_url: str, connection: psycopg.Connection, program: str
) -> None:
    """The pools do not wait for their threads, and print no warning."""
    body, status, last_line, tasks = PROGRAMS[program]

    ended = run("-c", HEAD + body, database_url)

    assert (status, last_line) == (ended.returncode, "".join(ended.stderr.splitlines()[-1:])), ended.stderr
    # All that is printed is the traceback of the program's own exception.
    assert "Exception ignored" not in ended.stderr
    assert "couldn't stop" not in ended.stderr
    assert tasks == value(connection, "SELECT count(*) FROM orchestrator.tasks")


@pytest.mark.parametrize("colour", ["thread", "loop"])
def test_a_daemon_thread_that_enqueues_to_the_end_prints_nothing(database_url: str, colour: str) -> None:
    """The pools may close while it runs."""
    body = """
enqueued = threading.Event()

def for_ever():
    while True:
        note.enqueue()
        enqueued.set()

async def afor_ever():
    while True:
        await note.aenqueue()
        enqueued.set()

target = for_ever if sys.argv[2] == "thread" else lambda: asyncio.run(afor_ever())
threading.Thread(target=target, daemon=True).start()
enqueued.wait()
"""
    ended = run("-c", HEAD + body, database_url, colour)

    assert (0, "") == (ended.returncode, ended.stderr)


def test_a_function_of_atexit_may_enqueue_after_the_pools_are_closed(
    database_url: str, connection: psycopg.Connection
) -> None:
    """It runs last, because it was registered before the import."""
    early = "import atexit\natexit.register(lambda: note.enqueue())\n"
    ended = run("-c", early + HEAD + "note.enqueue()", database_url)

    assert (0, "") == (ended.returncode, ended.stderr)
    assert 2 == value(connection, "SELECT count(*) FROM orchestrator.tasks")


def test_pytest_exits_quietly_after_tests_that_enqueue(database_url: str, tmp_path: Path) -> None:
    """With warnings as errors, and an application that the tests do not close."""
    body = (
        HEAD.replace("sys.argv[1]", repr(database_url))
        + "def test_note():\n    assert note.enqueue().created\n"
    )
    (tmp_path / "test_note.py").write_text(body)

    ended = run(
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    )

    assert (0, "") == (ended.returncode, ended.stderr), ended.stdout


@pytest.mark.parametrize("tasks", [20, long(300)])
def test_a_pool_closed_by_another_thread_refuses_no_task(
    database_url: str, connection: psycopg.Connection, tasks: int
) -> None:
    """A concurrent enqueue gets another connection."""
    body = """
def enqueue():
    for _ in range(int(sys.argv[2])):
        note.enqueue()

thread = threading.Thread(target=enqueue)
thread.start()
while thread.is_alive():
    app.close()
"""
    ended = run("-c", HEAD + body, database_url, str(tasks))

    assert (0, "") == (ended.returncode, ended.stderr)
    assert tasks == value(connection, "SELECT count(*) FROM orchestrator.tasks")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a new interpreter to its end: the tests are about its exit."""
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
