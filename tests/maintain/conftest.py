"""Shared by the tests of the duties: the clock and the workers of the stations, and a list of emitted events."""

from tests.stations.conftest import hire, worker

__all__ = ["hire", "worker"]
