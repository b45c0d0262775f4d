"""An application that sends its process a stop signal when the worker's loop has ended: at the moment that is set."""

import os
import sys
import time

from orchestrator import Orchestrator
from orchestrator.processes import watchdog

MOMENT = os.environ["SIGNALLED_AT_END"]


def signal_myself() -> None:
    os.kill(os.getpid(), int(os.environ["SIGNAL_AT_END"]))


class Application(Orchestrator):
    """Closes under a signal."""

    def close(self) -> None:
        if MOMENT == "it closes":
            signal_myself()
        if MOMENT == "it hangs":
            signal_myself()
            time.sleep(3600)
        super().close()


class Last:
    """Is deleted when the interpreter has restored the default handlers."""

    def __del__(self) -> None:
        if MOMENT == "the interpreter ends":
            signal_myself()


watchdog.CLOSE_SECONDS = 0.1
sys.modules["signalled at end"] = Last()  # type: ignore[assignment] # modules are deleted at the very end
app = Application()
