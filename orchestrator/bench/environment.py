"""The environment of a measure: the scratch database, how much to measure, and where to report the progress."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from orchestrator.bench.meter import Meter
from orchestrator.bench.sizes import Sizes
from orchestrator.errors import OrchestratorError


class NotMeasured(OrchestratorError):
    """A measure failed; the others go on."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The argument of each measure. The connection belongs to the bench and is in autocommit mode."""

    info: str
    connection: psycopg.Connection[Any]
    meter: Meter
    sizes: Sizes
    folder: Path  # for logs
    say: Callable[[str], None]  # shows the current step

    @property
    def log(self) -> Path:
        """Where all processes of the bench write."""
        return self.folder / "processes.log"
