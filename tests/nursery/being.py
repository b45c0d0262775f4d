"""What a child of the nursery does to be what a fresh interpreter is, and how it then runs its program."""

import ctypes
import importlib
import importlib.machinery
import io
import os
import runpy
import signal
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nursery.fit import FORGOTTEN, program

PR_SET_PDEATHSIG = 1
# A program has a place for annotations from its birth, or since Python 3.14 has none: as the nursery has it.
ANNOTATED = "__annotations__" in vars(sys.modules["__main__"])
libc = ctypes.CDLL(None)


def become(order: Mapping[str, Any], files: list[int], nursery: int) -> None:
    """Take over what the order gives: to be followed by `run`."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery:
        # It has died in between, and nobody would be told.
        os._exit(1)
    for number, file in enumerate(files):
        # They come with numbers beyond 2, where the nursery's own are.
        os.dup2(file, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(order["cwd"])
    os.umask(order["umask"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in order["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    # What came since the fork comes now.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    renew_streams(unbuffered=bool(order["env"].get("PYTHONUNBUFFERED")))
    importlib.invalidate_caches()


def renew_streams(*, unbuffered: bool) -> None:
    """Open the three streams as Python/pylifecycle.c does."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        was: io.TextIOWrapper = getattr(sys, name)
        writes = number > 0
        buffer: Any = open(  # noqa: SIM115 - for the life of the process
            number, "wb" if writes else "rb", 0 if unbuffered and writes else -1, closefd=False
        )
        getattr(buffer, "raw", buffer).name = f"<{name}>"
        stream = io.TextIOWrapper(
            buffer, was.encoding, was.errors, newline="\n", write_through=unbuffered,
            line_buffering=not unbuffered and (buffer.isatty() or name == "stderr"),
        )  # fmt: skip
        vars(stream)["mode"] = "w" if writes else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def run(order: Mapping[str, Any]) -> None:
    """Run the program as the interpreter does when it starts; what it raises is for the interpreter."""
    found = program(order["args"])
    assert found is not None
    how, what = found
    for name in [name for name in sys.modules if name.partition(".")[0] == FORGOTTEN]:
        del sys.modules[name]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update({"__annotations__": {}} if ANNOTATED else {}, __builtins__=sys.modules["builtins"])
    # The kernel puts the interpreter in front of a script's own name.
    sys.orig_argv = list(dict.fromkeys([sys.executable, order["args"][0]])) + order["args"][1:]
    path = os.path.abspath(what)
    first = {"-m": order["cwd"], "-c": "", "file": os.path.dirname(path)}[how]
    more = [os.path.abspath(each) for each in order["env"].get("PYTHONPATH", "").split(":") if each]
    sys.path[:] = [first, *dict.fromkeys([*more, *sys.path[1:]])]
    sys.argv = sys.orig_argv[1:] if how == "file" else [how, *sys.orig_argv[3:]]
    if how == "-m":
        # As with `python -m`, which calls it.
        runpy._run_module_as_main(what)  # type: ignore[attr-defined] # private
        return
    if how == "-c":
        main.__loader__ = importlib.machinery.BuiltinImporter
        code = compile(what, "<string>", "exec")
    else:
        main.__file__ = path
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
        main.__dict__["__cached__"] = None
        code = compile(Path(what).read_bytes(), path, "exec")
    exec(code, main.__dict__)  # noqa: S102 - the program
