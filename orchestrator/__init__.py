"""Background jobs on the PostgreSQL that an application already has."""

from orchestrator.app import Orchestrator
from orchestrator.errors import (
    Cancel,
    DatabaseUnavailable,
    Discard,
    EnqueueInDoubt,
    EnqueueRefused,
    OrchestratorError,
    PayloadRefused,
    Retry,
    Snooze,
    TaskCancelled,
    TaskExpired,
    TaskFailed,
)

# These two are raised when a process starts, and no program catches them one by one. They can be imported from here,
# but they are not among the public names.
from orchestrator.errors import ConfigError as ConfigError
from orchestrator.errors import SchemaError as SchemaError
from orchestrator.execute.context import Context
from orchestrator.task.backoff import Backoff
from orchestrator.version import __version__ as __version__

__all__ = [
    "Backoff",
    "Cancel",
    "Context",
    "DatabaseUnavailable",
    "Discard",
    "EnqueueInDoubt",
    "EnqueueRefused",
    "Orchestrator",
    "OrchestratorError",
    "PayloadRefused",
    "Retry",
    "Snooze",
    "TaskCancelled",
    "TaskExpired",
    "TaskFailed",
]
