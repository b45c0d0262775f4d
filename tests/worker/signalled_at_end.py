"""An application that sends its process a stop signal when it closes: after the worker's loop has ended."""

import os

from orchestrator import Orchestrator


class Application(Orchestrator):
    """Closes under a signal."""

    def close(self) -> None:
        os.kill(os.getpid(), int(os.environ["SIGNALLED_AT_END"]))
        super().close()


app = Application()
