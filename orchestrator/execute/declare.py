"""Write the types that this process has handlers for, and their defaults, into the database."""

from collections.abc import Iterable
from typing import Any

import psycopg

from orchestrator.execute.registry import Registry
from orchestrator.postgres import statement

DECLARE = statement.load(__file__, "declare.sql")


def declare(connection: psycopg.Connection[Any], registry: Registry, *, queues: Iterable[str] = ()) -> None:
    """Declare every type of the registry, its queue, and these queues."""
    handlers = list(registry)
    connection.execute(
        DECLARE,
        {
            "all_queues": sorted({*queues, *(handler.queue for handler in handlers)}),
            "names": [handler.type for handler in handlers],
            "queues": [handler.queue for handler in handlers],
            "priorities": [handler.priority for handler in handlers],
            "max_attempts": [handler.max_attempts for handler in handlers],
            "timeouts": [handler.timeout_seconds for handler in handlers],
            "bases": [float(handler.backoff.base_seconds) for handler in handlers],
            "factors": [float(handler.backoff.factor) for handler in handlers],
            "caps": [float(handler.backoff.cap_seconds) for handler in handlers],
            "jitters": [float(handler.backoff.jitter) for handler in handlers],
        },
    )
