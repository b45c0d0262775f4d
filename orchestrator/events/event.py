"""The base of all events."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events."""
