"""Helpers for the tests of an application that enqueues: a door, which holds no logic of a station.

    with testing.inline(app): …                     handlers run at once, without a database
    testing.assert_enqueued(welcome, user_id=1)     reads the database, also inside your open transaction
    testing.run_tasks(app)                              runs what is ready, as a worker would, on a real database
    with testing.frozen_clock(app) as clock: …      the database's time stands still, and moves when told to
    with testing.use_database(app, url): …          the application lives in another database for a while

`fixtures` has the same for pytest, with a server of its own and a fresh database for each test. It is no plugin that
registers itself: who does not name it in `pytest_plugins` has none of it, and only it imports pytest.
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
