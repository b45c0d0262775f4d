"""Four worker processes under random signals, side by side."""

from pathlib import Path

import pytest

from tests.worker.storm import storm

TASKS, SIGNALS = 500, 10


@pytest.mark.long
def test_a_storm_of_signals_leaves_every_effect_and_nothing_else(database_url: str, tmp_path: Path) -> None:
    """SIGTERM, twice sometimes, and kill -9: what is committed with its task is there once, the rest at least once, all
    tasks are completed, and none is left in anybody's hands."""
    passed = storm(database_url, tmp_path, tasks=TASKS, signals=SIGNALS, seed=5, seconds=30.0)

    assert SIGNALS == passed.kills + passed.stops
    assert 2 < passed.kills < 8
