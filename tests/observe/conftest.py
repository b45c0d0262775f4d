"""What the tests of statistics share: the stations' clock and workers."""

from tests.stations.conftest import hire, worker

__all__ = ["hire", "worker"]
