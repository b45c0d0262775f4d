"""Runs of the machine: short, and the same each time, in the checks; long, and new each time, on request.

    ORCHESTRATOR_TEST_STATEFUL=40000 python -m pytest -m long tests/stateful

The number is the number of stories. A failure is reported with the fewest steps that lead to it.
"""

import os
from collections.abc import Iterator
from functools import partial

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.database import Database
from tests.stateful.machine import Machine
from tests.tiers import long

STORIES = os.environ.get("ORCHESTRATOR_TEST_STATEFUL")

# Derandomized, and without a database of earlier failures: a check must not fail by chance, in an unrelated commit.
# The long run uses chance.
SETTINGS = settings(
    stateful_step_count=100 if STORIES else 50,
    derandomize=not STORIES,
    database=None,
    deadline=None,
    print_blob=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def database(database_url: str, connection: psycopg.Connection) -> Iterator[Database]:
    """The test's database, with a clock that stands still, for all stories in turn."""
    with psycopg.connect(database_url, autocommit=True) as worker:
        yield Database(worker, connection)


@pytest.mark.parametrize("stories", [20, long(int(STORIES or 80))], ids=["short", "long"])
def test_the_database_equals_the_reference(database: Database, stories: int) -> None:
    """After any sequence of actions: the same answers, the same rows, and no invariant broken."""
    told = settings(SETTINGS, max_examples=stories)
    run_state_machine_as_test(partial(Machine, database), settings=told)  # type: ignore[arg-type]  # any callable
