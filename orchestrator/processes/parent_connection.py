"""A worker's end of the connection to the parent that started it: a socket that no other process holds.

    worker → parent    one line of JSON when it serves: {"grace_seconds": 30.0, "embedded": null}
                       then, if it is asked to, one a second: {"numbers": […], "ready": {…}}
                       at last, when it has stopped cleanly: {"stopped": true}
    parent → worker    `stop`: claim no more, let running tasks finish     `hurry`: release them at once
    the connection     the parent is gone, for any reason: stop, and end within the grace and MARGIN_SECONDS
    closes

Messages, not signals alone, because a worker can get a signal twice: from a service manager that stops every process of
a service (systemd's default), and from a parent that forwards it. Two signals mean hurry. So a worker with a parent
takes any number of signals as one `stop`.

A separate thread reads the connection: even if a handler blocks the loop, the process must end after its parent.
"""

import asyncio
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from orchestrator import events, forks
from orchestrator.processes import exit_codes
from orchestrator.processes.metrics_sender import MetricsSender
from orchestrator.worker.worker import Worker

MARGIN_SECONDS = 20.0
"""The longest time beyond its grace that a worker takes to end while the database answers: the last outcomes get 10 s,
then connections are closed. A worker that is still there after that hangs, and is killed."""


class ParentConnection:
    """Open from the start of the process. Its messages go to the worker as soon as there is one."""

    def __init__(self, descriptor: int) -> None:
        # No process that a handler forks and no program that it starts may hold the socket.
        self._line = forks.keep(socket.socket(fileno=descriptor))
        self._line.set_inheritable(False)
        self._lock = threading.Lock()
        self._on_word: Callable[[str], None] | None = None
        self._words: list[str] = []
        self._grace_seconds = 0.0
        self._hurried = False
        self._metrics_sender: MetricsSender | None = None

    def hold(self) -> None:
        """Begin to read. If the parent ends before there is a worker, this process ends, too."""
        threading.Thread(target=self._run, name="orchestrator parent connection", daemon=True).start()

    def follow(self, worker: Worker, *, sends_metrics: bool = False) -> None:
        """Report to the parent when the worker serves. With `sends_metrics`, send its metrics from then on. Pass stop
        messages to the worker. Called on the worker's loop."""
        loop = asyncio.get_running_loop()

        def on_word(word: str) -> None:
            with suppress(RuntimeError):  # the loop has ended, and the process is ending
                loop.call_soon_threadsafe(self._act, worker, word)

        def report(event: events.Event) -> None:
            if isinstance(event, events.WorkerStarted):
                self._report(worker)
                if sends_metrics and self._metrics_sender is None:
                    self._metrics_sender = MetricsSender(self._line, worker.health)
                    self._metrics_sender.start()

        events.subscribe(report)
        with self._lock:
            self._on_word = on_word
            self._grace_seconds = worker.config.grace_seconds
            for word in self._words:
                on_word(word)

    def stop(self, worker: Worker) -> None:
        """Let the worker finish its running tasks and end. Each signal to a child means this."""
        self._act(worker, "stop")

    def last_word(self) -> None:
        """Send the final metrics."""
        if self._metrics_sender is not None:
            self._metrics_sender.stop()

    def announce_stop(self) -> None:
        """Tell the parent that this process ends now because the worker has stopped cleanly. Without this message the
        parent takes the end for a crash: a handler that calls os._exit(0) has the same exit code."""
        self._send({"stopped": True})

    def _run(self) -> None:
        with suppress(OSError), self._line.makefile("rb") as line:
            # Ends: the parent ends.
            for word in line:
                self._hear(word.decode().strip())
        self._hear("stop")
        if self._on_word is None:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(self._grace_seconds + MARGIN_SECONDS)
        os._exit(exit_codes.FAILED)

    def _hear(self, word: str) -> None:
        with self._lock:
            self._words.append(word)
            if self._on_word is not None:
                self._on_word(word)

    def _act(self, worker: Worker, word: str) -> None:
        if word == "hurry":
            self._hurried = True
            worker.stop(grace_seconds=0)
        elif not self._hurried:
            # Pass the grace, because a second stop() without one hurries.
            worker.stop(grace_seconds=worker.config.grace_seconds)

    def _report(self, worker: Worker) -> None:
        url = worker.config.database_url
        self._send(
            {
                "grace_seconds": worker.config.grace_seconds,
                "embedded": url if url.startswith("embedded:") else None,
            }
        )

    def _send(self, message: dict[str, object]) -> None:
        with suppress(OSError):  # the parent is gone; _run notices that
            self._line.sendall(json.dumps(message).encode() + b"\n")
