"""Shared by the tests of statistics: the clock and the workers of the stations."""

from tests.stations.conftest import hire, worker

__all__ = ["hire", "worker"]
