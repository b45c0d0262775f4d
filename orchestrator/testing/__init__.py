"""Helpers for the tests of an application that enqueues.

    with testing.inline(app): …                     handlers run at once, without a database
    testing.assert_enqueued(welcome, user_id=1)     reads the database, also inside your open transaction
    testing.run_tasks(app)                          runs ready tasks, as a worker would, on a real database
    with testing.frozen_clock(app) as clock: …      the database's time stops, and moves only by clock.set or advance
    with testing.use_database(app, url): …          the application uses another database within the block

`fixtures` offers these to pytest, with its own server and a fresh database for each test. It does not register itself
as a plugin: name it in `pytest_plugins` to use it. Only that module imports pytest.
"""

from orchestrator.testing.application import use_database
from orchestrator.testing.clock import Clock, frozen_clock
from orchestrator.testing.enqueued import (
    EnqueuedTask,
    aall_enqueued,
    aassert_enqueued,
    all_enqueued,
    arefute_enqueued,
    assert_enqueued,
    refute_enqueued,
)
from orchestrator.testing.inline import inline
from orchestrator.testing.run_tasks import TaskCounts, arun_tasks, run_tasks

__all__ = [
    "Clock",
    "EnqueuedTask",
    "TaskCounts",
    "aall_enqueued",
    "aassert_enqueued",
    "all_enqueued",
    "arefute_enqueued",
    "arun_tasks",
    "assert_enqueued",
    "frozen_clock",
    "inline",
    "refute_enqueued",
    "run_tasks",
    "use_database",
]
