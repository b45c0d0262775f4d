"""Write a worker's row: from then on it exists for the other workers."""

import os
import platform
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg

from orchestrator.config import Config
from orchestrator.postgres import statement
from orchestrator.version import __version__

REGISTER = statement.load(__file__, "register.sql")


def register(
    connection: psycopg.Connection[Any], worker_id: UUID, *, config: Config, types: Sequence[str]
) -> None:
    """Write the row of this worker, which handles these types."""
    connection.execute(
        REGISTER,
        {
            "id": worker_id,
            "host": platform.node()[:200],
            "pid": os.getpid(),
            "version": __version__,
            "queues": list(config.queues),
            "types": list(types),
            "capacity": config.concurrency,
            "dead_after_seconds": config.dead_after_seconds,
        },
    )
