"""Tell the parent the numbers of this process once a second, from a thread of its own, and once more at the end.

Told and not asked for: a process that hangs, or is stopped in a debugger, cannot hold up whoever asks the parent.
"""

import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from orchestrator import events, observe
from orchestrator.observe.health import Health, readiness

EVERY_SECONDS = 1.0
# Of one core: with hundreds of queues and types there is more to tell, and it is told less often.
SHARE = 0.01
STOP_SECONDS = 2.0


class MetricsSender:
    """Tells, until it is stopped."""

    def __init__(self, line: socket.socket, health: Callable[[], Health]) -> None:
        self._line = line
        self._health = health
        self._numbers: observe.Snapshot = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator telling", daemon=True)

    def start(self) -> None:
        """Begin to tell."""
        self._thread.start()

    def stop(self) -> None:
        """Tell for the last time. The parent may be gone, or hang: not for long."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with suppress(OSError):  # the parent is gone, which is noticed elsewhere
            # Ends: stop() is called; what came after the last look is told then.
            while not self._stop.is_set():
                began = time.thread_time()
                self._tell()
                self._stop.wait(max(EVERY_SECONDS, (time.thread_time() - began) / SHARE))
            self._tell()

    def _tell(self) -> None:
        try:
            self._numbers = observe.snapshot()
        except Exception as error:
            # Metrics of the application's own stand in the same registry, and may raise anything: the last ones, then.
            events.emit(events.DutyFailed("metrics", type(error).__name__, str(error)))
        said = {"numbers": self._numbers, "ready": readiness(self._health())}
        self._line.sendall(json.dumps(said).encode() + b"\n")
