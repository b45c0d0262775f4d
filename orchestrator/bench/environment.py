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
    """A measure went wrong; the others go on."""


@dataclass(frozen=True, slots=True)
class Environment:
    """Handed to each measure; the connection is the bench's own, in autocommit."""

    info: str
    connection: psycopg.Connection[Any]
    meter: Meter
    sizes: Sizes
    folder: Path  # of logs
    say: Callable[[str], None]  # what is being done just now

    @property
    def log(self) -> Path:
        """Where all processes of the bench write."""
        return self.folder / "processes.log"
