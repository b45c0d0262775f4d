"""One line a state change, through structlog; successes at DEBUG.

The user's own structlog configuration is respected; only the command line sets one, and only where there is none.
No payload is ever in a line: an event does not carry it.
"""

import dataclasses
import re
import sys
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from orchestrator import events
from orchestrator.observe.printable import printable

LEVELS: dict[type[events.Event], str] = {
    events.TaskStarted: "debug",
    events.TaskCompleted: "debug",
    events.OutcomesWritten: "debug",
    events.TaskSnoozed: "debug",
    events.LeaderElected: "debug",
    events.LeaderResigned: "debug",
    events.RowsExpired: "debug",
    events.GaugesSampled: "debug",
    events.TaskReleased: "info",
    events.TaskFailed: "warning",
    events.TaskPutBack: "warning",
    events.LeaseLost: "warning",
    events.StaleOutcome: "warning",
    events.OutcomeIgnored: "warning",
    events.GhostsReleased: "warning",
    events.TimeoutsEnforced: "warning",
    events.ConnectionLost: "warning",
    events.TaskBuried: "error",
    events.HandlerAbandoned: "error",
    events.WorkerDeclaredDead: "error",
    events.WorkerCutOff: "error",
    events.WorkerWornOut: "error",
    events.LoopBlocked: "warning",
    events.LoopFree: "warning",
    events.DatabaseReplaced: "error",
    events.DutyPutOff: "warning",
    events.LeaderSteppedDown: "warning",
    events.ListenDeaf: "warning",
    events.DutyFailed: "error",
    events.ChildDied: "error",
    events.ChildKilled: "error",
}


# A traceback has lines.
MULTI_LINE = ("exception", "stack")

# Of so many different lines it is known when they were said last.
SAID_MAX = 100
# While the database is away each connection says so at each try: a line in so many seconds tells as much. By what
# else must differ for it to be news.
SPARING: dict[type[events.Event], tuple[float, str | None]] = {
    events.ConnectionLost: (20.0, "reason"),
    events.ConnectionRestored: (20.0, None),
    events.DutyFailed: (60.0, "duty"),
    events.DutyPutOff: (60.0, "duty"),
}


def follow(*, minimum: str = "info") -> Callable[[], None]:
    """Write a line for every event of at least this level from now on; returns what ends it."""
    if not structlog.is_configured():
        configure()
    logger = structlog.get_logger("orchestrator")
    ranks = ("debug", "info", "warning", "error")
    loud = frozenset(ranks[ranks.index(minimum) :])
    news = News()

    def line(event: events.Event) -> None:
        if (left_out := news.of(event)) is not None:
            more = {"left_out": left_out} if left_out else {}
            getattr(logger, level_of(type(event)))(name_of(event), **fields_of(event), **more)

    return events.subscribe(line, to=[kind for kind in kinds() if level_of(kind) in loud])


def level_of(kind: type[events.Event]) -> str:
    return LEVELS.get(kind, "info")


def kinds() -> list[type[events.Event]]:
    """Return every kind of event there is."""
    found: list[type[events.Event]] = []
    waiting = [events.Event]
    while waiting:
        below = waiting.pop().__subclasses__()
        found += [kind for kind in below if not kind.__subclasses__()]
        waiting += below
    return found


def logger(**fields: Any) -> Any:
    """Return a logger that says these with each line, as the user's own configuration of structlog has it."""
    return structlog.get_logger("orchestrator").bind(**fields)


class News:
    """Remembers what was said lately, of the events that come in swarms."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[tuple[type[events.Event], object], tuple[float, int]] = {}

    def of(self, event: events.Event) -> int | None:
        """Return how many like this one were left out since the last line, or None to leave this one out too."""
        if type(event) not in SPARING:
            return 0
        seconds, differing = SPARING[type(event)]
        key = (type(event), getattr(event, differing) if differing else None)
        with self._lock:
            at, left_out = self._said.get(key, (-seconds, 0))
            now = time.monotonic()
            if now - at < seconds:
                self._said[key] = (at, left_out + 1)
                return None
            self._said.pop(key, None)
            self._said[key] = (now, 0)
            while len(self._said) > SAID_MAX:  # ends: each turn forgets the oldest
                del self._said[next(iter(self._said))]
            return left_out


def name_of(event: events.Event) -> str:
    """`TaskFailed` is `task failed`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(event).__name__).lower()


def fields_of(event: events.Event) -> dict[str, Any]:
    values = ((f.name, getattr(event, f.name)) for f in dataclasses.fields(event))
    return {name: str(value) if name.endswith("worker_id") else value for name, value in values}


def configure() -> None:
    """JSON, one object a line; in colour at a terminal."""
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # As text, here: the renderer for terminals would print each frame's variables, payloads and passwords too.
            structlog.processors.format_exc_info,
            *([harmless, console()] if terminal else [structlog.processors.JSONRenderer()]),
        ],
        # Writes a line and its end at once; print() writes them apart where Python is unbuffered (as in our image), and
        # the lines of several processes would mix.
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )


def console() -> Any:
    return structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)


def harmless(_logger: object, _method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Escape what a terminal would obey. JSON does so by itself."""
    return {
        printable(name): printable(value, keeping="\n" if name in MULTI_LINE else "")
        if isinstance(value, str)
        else value
        for name, value in line.items()
    }
