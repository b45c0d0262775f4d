"""`python -m tests.nursery SOCKET FOLDER`: load what the commands load, and fork a child at each order.

One thread, no connection to any database: there is nothing that a fork would share.
"""

import ast
import atexit
import gc
import importlib
import os
import pkgutil
import selectors
import shutil
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.nursery import being, leaving

# Before anything else registers: it is to be the last.
atexit.register(leaving.leave_loaded)

import orchestrator.cli  # noqa: E402
from tests.nursery.fit import unfit  # noqa: E402

# Loaded by commands only when it comes to that.
LATER = (
    "alembic.command",
    "alembic.config",
    "alembic.op",
    "alembic.runtime.migration",
    "concurrent.futures.thread",
    "logging.config",
    "mako.template",
    "psycopg_pool",
    "rich.progress",
    "rich.live",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.pool",
)


@dataclass(slots=True)
class Born:
    """What a child is to do."""

    order: Mapping[str, Any]
    files: list[int]


@dataclass(slots=True)
class Nursery:
    """Its own descriptors, and its children by the descriptors that tell of their end."""

    listener: socket.socket
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    children: dict[int, tuple[int, socket.socket]] = field(default_factory=dict)
    born_with: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def serve(self) -> Born | None:
        """Take orders until standard input ends; in a child, return what it is to do."""
        self.selector.register(0, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        while True:
            # One at a time: what it leads to may close a descriptor, and give its number to something else.
            for key, _ in self.selector.select()[:1]:
                if key.fd == 0:
                    return None
                if key.fileobj is self.listener:
                    born = self._take()
                    if born is not None:
                        return born
                elif key.fd in self.children:
                    self._bury(key.fd)
                elif key.data is not None and key.data in self.children:
                    self._kill(key.data)

    def _take(self) -> Born | None:
        line, _ = self.listener.accept()
        try:
            order, files = received(line)
        except (OSError, EOFError):
            # It was killed while it ordered.
            line.close()
            return None
        why = unfit(order, self.born_with)
        if why is not None:
            with line, suppress(OSError):
                line.send(why.encode()[:64])
        else:
            # Kept for the child until it can take it.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            child = os.fork()
            if child == 0:
                line.close()
                self._let_go()
                return Born(order, files)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            self._raise_up(child, line, tied=order["tied"])
        for file in files:
            os.close(file)
        return None

    def _raise_up(self, child: int, line: socket.socket, *, tied: bool) -> None:
        handle = os.pidfd_open(child)
        self.children[handle] = (child, line)
        self.selector.register(handle, selectors.EVENT_READ)
        if tied:
            # Who stands in for it may be killed.
            self.selector.register(line, selectors.EVENT_READ, handle)
        with suppress(OSError):
            socket.send_fds(line, [str(child).encode()], [handle])

    def _bury(self, handle: int) -> None:
        child, line = self.children.pop(handle)
        _, status = os.waitpid(child, 0)
        with suppress(KeyError):
            self.selector.unregister(line)
        self.selector.unregister(handle)
        os.close(handle)
        # Nobody may be waiting any more.
        with line, suppress(OSError):
            line.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _kill(self, handle: int) -> None:
        child, line = self.children[handle]
        self.selector.unregister(line)
        os.kill(child, signal.SIGKILL)

    def _let_go(self) -> None:
        """Close, in a child, what has an object: the object would close its number later, whoever has it then."""
        self.listener.close()
        self.selector.close()
        for _, line in self.children.values():
            line.close()
        self.children.clear()

    def close(self) -> None:
        """Kill who is left."""
        for child, _ in self.children.values():
            os.kill(child, signal.SIGKILL)


def received(line: socket.socket) -> tuple[Mapping[str, Any], list[int]]:
    """Read an order, and the descriptors that come with it."""
    size, files, _, _ = socket.recv_fds(line, 4, 3)
    text = b""
    try:
        if len(size) < 4:
            raise EOFError
        wanted = int.from_bytes(size, "big")
        while len(text) < wanted:
            piece = line.recv(wanted - len(text))
            if not piece:
                raise EOFError
            text += piece
    except BaseException:
        for file in files:
            os.close(file)
        raise
    return ast.literal_eval(text.decode()), list(files)


def load() -> None:
    """Load all commands, and what they load when they are run."""
    for module in pkgutil.walk_packages(orchestrator.cli.__path__, "orchestrator.cli."):
        importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)


def main() -> None:
    """Serve; a child leaves from here, with nothing below it."""
    # Ctrl-C at pytest's terminal is for pytest, and for the children.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load()
    leaving.note_loaded()
    gc.collect()
    gc.freeze()
    nursery, itself = Nursery(socket.socket(fileno=int(sys.argv[1]))), os.getpid()
    born = nursery.serve()
    if born is None:
        nursery.close()
        shutil.rmtree(sys.argv[2], ignore_errors=True)
        return
    being.become(born.order, born.files, itself)
    being.run(born.order)


if __name__ == "__main__":
    main()
