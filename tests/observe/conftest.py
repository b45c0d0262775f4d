"""What the tests of statistics share: the stations' clock and workers."""

from tests.stations.conftest import clock, hire, worker

__all__ = ["clock", "hire", "worker"]
