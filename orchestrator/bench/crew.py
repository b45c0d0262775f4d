"""Worker processes under measurement: `orchestrator worker`, with the defaults of everybody."""

import subprocess  # nosec B404 # each call says what it starts
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from orchestrator.bench import sections
from orchestrator.bench.ground import Ground, NotMeasured
from orchestrator.bench.process import last_words, spawn

SQL = sections.of(__file__, "crew.sql")
APP = "orchestrator.bench.tasks:app"
CONCURRENCY = 100
START_SECONDS = 30.0
# A worker marks itself idle within milliseconds of finding nothing; one that never does is not waited for.
REST_SECONDS = 1.0
STOP_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.02


class WorkerEnded(NotMeasured):
    """A worker did not start, or ended before it was told to."""


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
        words: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
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
            *words,
        ]
        self._settings = settings or {}
        self._info = info or ground.info
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
                raise WorkerEnded(
                    f"a worker ended with status {status}, and said\n{last_words(self._ground)}"
                )

    def settle(self) -> None:
        """Return when all of them sleep, or after a moment."""
        self._wait_until_all("resting", REST_SECONDS, patient=False)

    def _start(self) -> None:
        for _ in range(self._size):
            started = spawn(
                self._ground,
                "orchestrator.demo.tether",
                *self._words,
                url=self._info,
                answers=False,
                settings=self._settings,
            )
            self._processes.append(started)

    def _wait_until_all(self, state: str, seconds: float, *, patient: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            row = self._ground.connection.execute(SQL[state], {"pids": self.pids}).fetchone()
            if row is not None and row[0] == self._size:
                return
            time.sleep(LOOK_EVERY_SECONDS)
        if patient:
            raise WorkerEnded(
                f"the workers were not {state} after {seconds:.0f} s: {last_words(self._ground)}"
            )

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
