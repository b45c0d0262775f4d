"""What every event is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened."""
