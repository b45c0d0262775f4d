"""The machine let loose: short, and the same each time, in the checks; long, and new each time, when asked for.

`ORCHESTRATOR_TEST_STATEFUL=40000` is the number of stories; what it finds is told with the steps that lead there.
"""

import os
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.stateful.ground import Ground
from tests.stateful.machine import Machine

# Derandomized, and without a database of earlier finds: a check must not turn red by luck, in a commit that has
# nothing to do with it. The long run is where luck is wanted.
SHORT = settings(max_examples=200, stateful_step_count=50, derandomize=True)
LONG = settings(max_examples=int(os.environ.get("ORCHESTRATOR_TEST_STATEFUL", "0")) or 1, stateful_step_count=100)
COMMON = settings(
    database=None,
    deadline=None,
    print_blob=True,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def ground(database_url: str, connection: psycopg.Connection) -> Iterator[Ground]:
    with psycopg.connect(database_url, autocommit=True) as worker:
        yield Ground(worker, connection)


def test_the_database_does_what_the_reference_does(ground: Ground) -> None:
    """Whatever comes after whatever: the same answers, the same rows, and no invariant broken."""
    chosen = LONG if "ORCHESTRATOR_TEST_STATEFUL" in os.environ else SHORT

    run_state_machine_as_test(lambda: Machine(ground), settings=settings(COMMON, max_examples=chosen.max_examples, stateful_step_count=chosen.stateful_step_count, derandomize=chosen.derandomize))
    print("STEPS", Machine.steps)
