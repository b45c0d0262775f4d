"""Worker processes under measurement: `orchestrator worker`, with the defaults of everybody."""

import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from orchestrator.bench import sections
from orchestrator.bench.ground import Ground
from orchestrator.bench.process import spawn
from orchestrator.errors import OrchestratorError

SQL = sections.of(__file__, "crew.sql")
APP = "orchestrator.bench.tasks:app"
CONCURRENCY = 100
START_SECONDS = 30.0
# A worker marks itself idle within milliseconds of finding nothing; one that never does is not waited for.
REST_SECONDS = 1.0
STOP_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.02
LOG_TAIL_CHARACTERS = 1_000


class WorkerEnded(OrchestratorError):
    """A worker ended before the bench did."""


class Crew:
    """Worker processes on the scratch database, from the start of a block, where they serve, to its end.

    They hang on this process by a pipe (`orchestrator.demo.tether`): however it ends, they end.
    """

    def __init__(
        self,
        ground: Ground,
        *,
        size: int = 1,
        concurrency: int = CONCURRENCY,
        queues: Sequence[str] = ("default",),
        info: str | None = None,
    ) -> None:
        self._ground = ground
        self._size = size
        self._words = [
            "worker",
            APP,
            "--concurrency",
            str(concurrency),
            "--queues",
            ",".join(queues),
            "--grace",
            "0",
        ]
        self._info = info or ground.info
        self._log = ground.folder / "workers.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._start()
            self._wait_until_all("serving", START_SECONDS)
            self.settle()
        except BaseException:
            self._stop(gently=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._stop(gently=kind is None)

    @property
    def pids(self) -> list[int]:
        """The workers' processes; their children belong to them."""
        return [process.pid for process in self._processes]

    def check(self) -> None:
        """Raise if one has ended on its own."""
        for process in self._processes:
            if (status := process.poll()) is not None:
                tail = self._log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:].strip()
                raise WorkerEnded(f"a worker ended with status {status}; its log ends with\n{tail}")

    def settle(self) -> None:
        """Return when all of them sleep, or after a moment."""
        self._wait_until_all("resting", REST_SECONDS, patient=False)

    def _start(self) -> None:
        with self._log.open("ab") as log:
            for _ in range(self._size):
                self._processes.append(
                    spawn("orchestrator.demo.tether", *self._words, url=self._info, log=log)
                )

    def _wait_until_all(self, state: str, seconds: float, *, patient: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            row = self._ground.connection.execute(SQL[state], {"pids": self.pids}).fetchone()
            if row is not None and row[0] == self._size:
                return
            time.sleep(LOOK_EVERY_SECONDS)
        if patient:
            raise WorkerEnded(f"the workers were not {state} after {seconds:.0f} s; see {self._log}")

    def _stop(self, *, gently: bool) -> None:
        for process in self._processes:
            process.terminate() if gently else process.kill()
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
