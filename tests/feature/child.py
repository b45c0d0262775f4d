"""Run worker processes with the feature: one line of wiring, then `orchestrator worker`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.worker import features
from tests.feature.lane_limits import LANE_LIMITS
from tests.forked import command_line
from tests.worker.processes import QUICK, Process, begin, surroundings


def work(*words: str) -> None:
    """Be `orchestrator WORDS`, with the feature."""
    features.FEATURES = (LANE_LIMITS,)
    command_line(*words)


@contextmanager
def worker(
    url: str, log: Path, *words: str, app: str = "tests.worker.tasks:app", **settings: str
) -> Iterator[Process]:
    """Run a worker process with the feature beside the block; kill it afterwards if it is still there."""
    env = surroundings(url, **{**QUICK, **settings})
    process = begin(work, "worker", app, *words, log=log, env=env)
    try:
        yield process
    finally:
        process.kill()
