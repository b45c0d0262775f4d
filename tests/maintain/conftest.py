"""What the tests of the duties share: the stations' clock and workers, and an ear for events."""

from tests.stations.conftest import hire, worker

__all__ = ["hire", "worker"]
