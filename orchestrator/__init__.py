"""Background jobs on the PostgreSQL that an application already has."""

from orchestrator.app import Orchestrator
from orchestrator.errors import (
    Cancel,
    ConfigError,
    DatabaseUnavailable,
    Discard,
    EnqueueRefused,
    OrchestratorError,
    PayloadRefused,
    Retry,
    SchemaError,
    Snooze,
)
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff
from orchestrator.version import __version__ as __version__

__all__ = [
    "Backoff",
    "Cancel",
    "ConfigError",
    "Context",
    "DatabaseUnavailable",
    "Discard",
    "EnqueueRefused",
    "Orchestrator",
    "OrchestratorError",
    "PayloadRefused",
    "Retry",
    "SchemaError",
    "Snooze",
]
