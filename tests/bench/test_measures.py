"""Every measure, at sizes too small to measure anything: it runs, and its figures have the right form."""

import math
from collections.abc import Callable

import msgspec
import pytest

from orchestrator import bench
from orchestrator.bench.json_report import written
from orchestrator.bench.result import Measure, Result, Skipped, cost
from tests.bench.conftest import TINY, Take

BY_NAME = {measure.name: measure for measure in bench.MEASURES}
# One that enqueues, one with a backlog, one with an idle worker; the others need some seconds each.
SHORT = {"enqueue", "throughput", "pickup"}
# Those whose lines stand for themselves: there is nothing below them.
WITHOUT_FLOOR = {"statements", "pickup-steady", "idle", "memory"}
# Those whose lines hold the cost of tasks.
PRICED = set(BY_NAME) - {"idle", "memory"}
# Nothing is said in some tenths of a second of idleness; a handler may start before the producer knows of its commit.
MAYBE_NOTHING = {"idle", "pickup", "pickup-steady"}
LINES = {"enqueue": 2, "enqueue-many": 2, "statements": 2, "producers": 8, "pickup-steady": 2, "growth": 4}


@pytest.mark.parametrize(
    "measure",
    [
        pytest.param(m, id=name, marks=() if name in SHORT else pytest.mark.long)
        for name, m in BY_NAME.items()
    ],
)
def test_a_measure_gives_sane_figures(
    measure: Measure, take: Take, left_over: Callable[[], set[str]]
) -> None:
    """Positive, finite, with a floor where there is one, and a document can be written of them."""
    results = take(measure).results

    assert LINES.get(measure.name, 1) == len(results)
    for result in results:
        assert isinstance(result, Skipped) or (isinstance(result, Result) and is_sane(measure, result)), (
            result
        )
        assert msgspec.json.encode(written(measure, result))
    assert set() == left_over()


def is_sane(measure: Measure, result: Result) -> bool:
    figures = [r.figure for r in (*result.ours, *result.floor)] + list(result.details.values())
    assert all(math.isfinite(figure) for figure in figures)
    assert all(r.figure > 0 for r in (*result.ours, *result.floor)) or measure.name in MAYBE_NOTHING
    assert (measure.name not in WITHOUT_FLOOR) == (result.ratio is not None)
    assert (measure.name in PRICED) == bool(result.tasks)
    assert measure.name not in PRICED or (cost(result.ours, result.tasks).wal_bytes or 0) > 0
    known = {"ratio", "ours", *result.details}
    return {goal.of for goal in result.goals} <= known


def test_only_what_this_server_cannot_do_is_skipped(take: Take) -> None:
    """The servers of the tests run without fsync, where a commit has nothing to wait for."""
    (result,) = take(BY_NAME["throughput-commit"]).results

    assert isinstance(result, Skipped)
    assert "fsync is off on this server, and commit_delay has no effect without it" == result.reason


def test_the_report_describes_the_system(take: Take) -> None:
    """No number means anything without its machine, its server and its day."""
    setting = take().setting

    assert setting is not None
    assert ("tiny", "off") == (setting.sizes, setting.server_settings["fsync"])
    assert setting.cores > 0
    assert setting.at
    assert int(setting.server_version.split(".")[0]) >= 15


def test_each_round_has_a_figure_of_its_own(take: Take) -> None:
    """Medians are taken of them."""
    result, _ = take(BY_NAME["enqueue"]).results

    assert isinstance(result, Result)
    assert (TINY.rounds, TINY.rounds) == (len(result.ours), len(result.floor))
