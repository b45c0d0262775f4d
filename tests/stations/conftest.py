"""Shared by the tests of the stations: the database's clock, and workers that call the stations."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.stations.worker import Mate


@pytest.fixture
def hire(database_url: str) -> Iterator[Callable[[], Mate]]:
    """Make one more worker on the test's database."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(Mate(database_url)))


@pytest.fixture
def worker(hire: Callable[[], Mate]) -> Mate:
    """A worker on the test's database."""
    return hire()
