"""A feature, what a worker offers to it, and what it adds to the worker."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from orchestrator.config import Config
from orchestrator.execute import Registry
from orchestrator.feature.companion import Companion
from orchestrator.feature.source import Source
from orchestrator.lead import Duty


def nothing(_connection: psycopg.Connection[Any]) -> None:
    """The default of `declare`."""


@dataclass(frozen=True, slots=True)
class Host:
    """What a worker offers to a feature. `ring`: let the worker claim now; for its event loop only."""

    config: Config
    registry: Registry
    ring: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a feature adds to one worker. A part that is left out costs nothing.

    `declare` runs at the start, on the heartbeat's connection, and again if a lock was in its way. `urgent` duties are
    those whose delay is noticed."""

    declare: Callable[[psycopg.Connection[Any]], None] = nothing
    urgent: Sequence[Duty] = ()
    housekeeping: Sequence[Duty] = ()
    source: Source | None = None
    companion: Companion | None = None


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature. `join` makes its parts for one worker: they may share state. Its source and its companion share one
    connection, which has the feature's name."""

    name: str
    join: Callable[[Host], Parts]
