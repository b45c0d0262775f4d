"""The measured worker processes: `orchestrator worker` with the default settings."""

import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from orchestrator.bench.environment import Environment, NotMeasured
from orchestrator.demo import workers
from orchestrator.postgres import statement

SQL = statement.sections(__file__, "workers.sql")
APP = "orchestrator.bench.tasks:app"
CONCURRENCY = 100
START_SECONDS = 30.0
# A worker that finds no task marks itself idle within milliseconds. The bench waits no longer than this.
REST_SECONDS = 1.0
STOP_SECONDS = 10.0
LOOK_EVERY_SECONDS = 0.02


class Workers(workers.Workers):
    """Worker processes on the scratch database. They serve when the block starts, and stop at its end."""

    def __init__(
        self,
        environment: Environment,
        *,
        size: int = 1,
        concurrency: int = CONCURRENCY,
        queues: Sequence[str] = ("default",),
        info: str | None = None,
        words: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = environment
        served = ("--concurrency", str(concurrency), "--queues", ",".join(queues), "--grace", "0")
        super().__init__(
            [APP, *served, *words],
            url=info or environment.info,
            size=size,
            log=environment.log,
            settings=settings,
        )

    def __enter__(self) -> Self:
        try:
            self.start()
            self._wait_until_all("serving", START_SECONDS)
            self.wait_until_idle()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.terminate()
            deadline = time.monotonic() + STOP_SECONDS
            while self.is_there() and time.monotonic() < deadline:
                time.sleep(LOOK_EVERY_SECONDS)
        self.close()

    def check(self) -> None:
        """Raise an error if a worker has ended."""
        try:
            super().check()
        except workers.WorkerEnded as error:
            raise NotMeasured(str(error)) from None

    def wait_until_idle(self) -> None:
        """Return when all workers are idle, or after a moment."""
        self._wait_until_all("resting", REST_SECONDS, patient=False)

    def _wait_until_all(self, state: str, seconds: float, *, patient: bool = True) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.check()
            row = self._environment.connection.execute(SQL[state], {"pids": self.pids}).fetchone()
            if row is not None and row[0] == self._size:
                return
            time.sleep(LOOK_EVERY_SECONDS)
        if patient:
            raise NotMeasured(
                f"the workers were not {state} after {seconds:.0f} s: {workers.last_output(self._environment.log)}"
            )
