"""One log line for each state change; successes at DEBUG. `log_output` decides where lines go.

No line holds a payload: only the event `TaskPayload` carries one, and it is emitted only with the setting
`log_payloads`.
"""

import dataclasses
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from orchestrator import events
from orchestrator.observe.log_output import configure, logger
from orchestrator.observe.masking import masked_payload

# All other lines are of level info.
LEVELS: dict[str, tuple[type[events.Event], ...]] = {
    # They occur many times a second, and only count for metrics.
    "never": (
        events.TasksEnqueued, events.OutcomesWritten, events.ClaimAnswered, events.LoopTurned, events.WorkersRung,
        events.NotificationHeard,
    ),
    "debug": (
        events.TaskStarted, events.TaskCompleted, events.TaskSnoozed, events.LeaderElected, events.LeaderResigned,
        events.RowsExpired, events.GaugesSampled,
    ),
    "warning": (
        events.TaskFailed, events.TaskPutBack, events.LeaseLost, events.StaleOutcome, events.OutcomeIgnored,
        events.GhostsReleased, events.TimeoutsEnforced, events.ConnectionLost, events.ServerAwaited,
        events.LoopBlocked, events.LoopFree, events.DutyPutOff, events.LeaderSteppedDown, events.ListenDeaf,
        events.EventsDropped,
    ),
    "error": (
        events.TaskDeadLettered, events.HandlerAbandoned, events.WorkerDeclaredDead, events.WorkerCutOff,
        events.WorkerWornOut, events.ProcessAborted, events.WorkerHung, events.DatabaseReplaced, events.DutyFailed,
        events.DutyRowSkipped, events.ChildDied, events.ChildKilled, events.SubscriberFailed,
    ),
}  # fmt: skip
LEVEL_OF = {kind: level for level, kinds in LEVELS.items() for kind in kinds}

# These fields are left out when they are None.
MAY_LACK = ("trace_id", "duration_seconds", "worker_id")

# For how many different lines the time of the last one is remembered.
SAID_MAX = 100
# While the database is away, each connection emits an event at each try. One line in so many seconds is enough, unless
# the named field differs.
SPARING: dict[type[events.Event], tuple[float, str | None]] = {
    events.ConnectionLost: (20.0, "reason"),
    events.ConnectionRestored: (20.0, None),
    events.DutyFailed: (60.0, "duty"),
    events.DutyPutOff: (60.0, "duty"),
    events.DutyRowSkipped: (60.0, "row"),
    events.SubscriberFailed: (60.0, "subscriber"),
}


def follow(*, minimum: str = "info") -> Callable[[], None]:
    """Write a line for every event of at least this level from now on. Return the function that ends it."""
    configure()
    ranks = ("debug", "info", "warning", "error")
    loud = frozenset(ranks[ranks.index(minimum) :])
    news = Repeats()

    def line(event: events.Event) -> None:
        if (left_out := news.of(event)) is not None:
            more = {"left_out": left_out} if left_out else {}
            getattr(logger(), level_of(type(event)))(name_of(event), **fields_of(event), **more)

    return events.subscribe(line, to=[kind for kind in events.kinds() if level_of(kind) in loud])


def level_of(kind: type[events.Event]) -> str:
    return LEVEL_OF.get(kind, "info")


def has_line(kind: type[events.Event]) -> bool:
    """Return whether such events are logged at any level."""
    return level_of(kind) != "never"


class Repeats:
    """Remembers the last lines of the events that repeat often."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[tuple[type[events.Event], object], tuple[float, int]] = {}

    def of(self, event: events.Event) -> int | None:
        """Return how many similar events were left out since the last line, or None to leave this one out too."""
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
    """Return the fields of a line: those of the event, without the empty ones of MAY_LACK."""
    values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    return {
        name: logged_value(name, value)
        for name, value in values.items()
        if value is not None or name not in MAY_LACK
    }


def logged_value(name: str, value: Any) -> Any:
    if name == "payload":
        return masked_payload(value)
    if name == "duration_seconds":
        return round(value, 6)
    return str(value) if name.endswith("worker_id") else value
