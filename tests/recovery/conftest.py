"""An environment with short settings for each test."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.recovery.environment import Environment, environment
from tests.worker.processes import QUICK


@pytest.fixture
def quick(database_url: str, tmp_path: Path) -> Iterator[Environment]:
    """A database, and workers that are declared dead after a second."""
    with environment(database_url, tmp_path, QUICK) as made:
        yield made


@pytest.fixture
def patient(database_url: str, tmp_path: Path) -> Iterator[Environment]:
    """Workers that are declared dead after seven seconds, or earlier by their beacons."""
    settings = {**QUICK, "ORCHESTRATOR_DEAD_AFTER_SECONDS": "7", "ORCHESTRATOR_TERM_SECONDS": "10"}
    with environment(database_url, tmp_path, settings) as made:
        old_enough(made, 7.0)
        yield made


def old_enough(made: Environment, seconds: float) -> None:
    """Wait until the server has been up for this time: earlier, a missing beacon has no effect."""
    made.until(
        lambda: made.ask(
            "SELECT 1 WHERE statement_timestamp() - pg_postmaster_start_time() > %s * interval '1 s'", seconds
        ),
        "the server is old enough",
    )


@pytest.fixture
def connection(quick: Environment) -> psycopg.Connection:
    """A session on the environment's database."""
    return quick.connection
