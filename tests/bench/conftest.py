"""The smallest possible run, and a reporter that records it."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from orchestrator import bench
from orchestrator.bench.result import Failed, Measure, Result, Skipped
from orchestrator.bench.sizes import Sizes
from orchestrator.bench.system_info import SystemInfo

TINY = Sizes(
    name="tiny", rounds=1, work_off=300, large=20, enqueues=10, many=200, producers=4, producer_enqueues=3, probes=3,
    steady_seconds=0.05, ready=200, scheduled=200, finished=200, queues=3, snapshot_seconds=0.2, idle_seconds=0.2,
    memory=300,
)  # fmt: skip

SCRATCH = "SELECT datname FROM pg_database WHERE datname LIKE 'orchestrator_bench_%'"


class Listener:
    """Takes down what is said."""

    def __init__(self) -> None:
        self.setting: SystemInfo | None = None
        self.results: list[Result | Skipped | Failed] = []
        self.steps: list[str] = []

    def begin(self, setting: SystemInfo) -> None:
        self.setting = setting

    def doing(self, text: str) -> None:
        self.steps.append(text)

    def result(self, measure: Measure, result: Result | Skipped | Failed) -> None:
        self.results.append(result)

    def end(self) -> None:
        self.steps.append("end")

    def interrupted(self) -> None:
        self.steps.append("interrupted")


Take = Callable[..., Listener]


@pytest.fixture
def take(server_url: str) -> Take:
    """Run measures at the smallest sizes, on the server of the tests."""

    def run(*measures: Measure) -> Listener:
        listener = Listener()
        assert 0 == bench.run(bench.Run(measures=measures, sizes=TINY, url=server_url), listener)
        return listener

    return run


@pytest.fixture
def left_over(administrator: psycopg.Connection[Any]) -> Callable[[], set[str]]:
    """Ask which scratch databases there are, but for those that were there before: other tests may run beside."""
    before = {row[0] for row in administrator.execute(SCRATCH).fetchall()}
    return lambda: {row[0] for row in administrator.execute(SCRATCH).fetchall()} - before
