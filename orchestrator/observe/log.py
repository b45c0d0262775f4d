"""One line a state change, through structlog; successes at DEBUG.

The user's own structlog configuration is respected; only the command line sets one, and only where there is none.
No payload is ever in a line: an event does not carry it.
"""

import dataclasses
import re
import sys
from collections.abc import Callable
from typing import Any

import structlog

from orchestrator import events

LEVELS: dict[type[events.Event], str] = {
    events.TaskStarted: "debug",
    events.TaskCompleted: "debug",
    events.TaskSnoozed: "debug",
    events.TaskReleased: "info",
    events.TaskFailed: "warning",
    events.TaskPutBack: "warning",
    events.StaleOutcome: "warning",
    events.GhostsReleased: "warning",
    events.ConnectionLost: "warning",
    events.TaskBuried: "error",
    events.HandlerAbandoned: "error",
    events.WorkerDeclaredDead: "error",
    events.DutyFailed: "error",
}


def follow(*, minimum: str = "info") -> Callable[[], None]:
    """Write a line for every event of at least this level from now on; returns what ends it."""
    if not structlog.is_configured():
        configure()
    logger = structlog.get_logger("orchestrator")
    ranks = ("debug", "info", "warning", "error")
    loud = frozenset(ranks[ranks.index(minimum) :])
    return events.subscribe(lambda event: write(logger, event, loud))


def write(logger: Any, event: events.Event, loud: frozenset[str]) -> None:
    level = LEVELS.get(type(event), "info")
    if level in loud:
        getattr(logger, level)(name_of(event), **fields_of(event))


def name_of(event: events.Event) -> str:
    """`TaskFailed` is `task failed`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(event).__name__).lower()


def fields_of(event: events.Event) -> dict[str, Any]:
    values = ((f.name, getattr(event, f.name)) for f in dataclasses.fields(event))
    return {name: str(value) if name.endswith("worker_id") else value for name, value in values}


def configure() -> None:
    """JSON, one object a line; in colour at a terminal."""
    terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
    )
