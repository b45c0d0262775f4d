"""Four worker processes under random signals, side by side."""

from pathlib import Path

import pytest

from tests.worker.storm import storm

TASKS, SIGNALS = 500, 10


@pytest.mark.long
def test_a_storm_of_signals_leaves_every_effect_and_nothing_else(database_url: str, tmp_path: Path) -> None:
    """SIGTERM, sometimes twice, and kill -9: an effect that is committed with its task exists once, other effects at
    least once, all tasks are completed, and no worker holds one."""
    passed = storm(database_url, tmp_path, tasks=TASKS, signals=SIGNALS, seed=5, seconds=30.0)

    assert SIGNALS == passed.kills + passed.stops
    assert 2 < passed.kills < 8
