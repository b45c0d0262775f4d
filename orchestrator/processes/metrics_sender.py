"""Send the metrics of this process to the parent once a second, from its own thread, and once more at the end.

The child sends; the parent does not ask. So a process that hangs, or is stopped in a debugger, cannot delay the
parent's metrics page.
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
# The most CPU to use, as a share of one core. With hundreds of queues and types each message costs more, so messages
# are sent less often.
SHARE = 0.01
STOP_SECONDS = 2.0


class MetricsSender:
    """Sends metrics until stop() is called."""

    def __init__(self, line: socket.socket, health: Callable[[], Health]) -> None:
        self._line = line
        self._health = health
        self._numbers: observe.Snapshot = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orchestrator telling", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def stop(self) -> None:
        """Send for the last time, for at most STOP_SECONDS: the parent may be gone, or hang."""
        self._stop.set()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        with suppress(OSError):  # the parent is gone; ParentConnection notices that
            # Ends: stop() is called. The send after the loop covers the time since the last one.
            while not self._stop.is_set():
                began = time.thread_time()
                self._send()
                self._stop.wait(max(EVERY_SECONDS, (time.thread_time() - began) / SHARE))
            self._send()

    def _send(self) -> None:
        try:
            self._numbers = observe.snapshot()
        except Exception as error:
            # The application's metrics are in the same registry and may raise anything. Then send the last snapshot.
            events.emit(events.DutyFailed("metrics", type(error).__name__, str(error)))
        report = {"numbers": self._numbers, "ready": readiness(self._health())}
        self._line.sendall(json.dumps(report).encode() + b"\n")
