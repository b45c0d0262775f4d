"""The state of a worker at a moment, and whether it is ready.

    database        it has confirmed a recent heartbeat, and is not a copy that waits for an operator
    schema          it was compared at the start, and fits
    notifications   the worker listens, or polls if none arrive: slower, and still ready
    loop            it is at most one second late

The answer holds no name, address or error of the database: any client may ask.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.observe import metric_definitions
from orchestrator.observe.metric_values import Reading

LOOP_LAG_SECONDS_MAX = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The state of a worker. Any thread may read it, also while the loop is blocked."""

    is_registered: bool
    is_stopping: bool
    is_at_home: bool
    """Whether the database is not a copy."""
    hears: bool
    silent_seconds: float
    silent_seconds_max: float
    loop_lag_seconds: float
    slots: int
    busy: int
    waiting: int
    unwritten: int


@dataclass(frozen=True, slots=True)
class Check:
    """One check of readiness."""

    ok: bool
    says: str


def checks(health: Health) -> dict[str, Check]:
    """Return all checks."""
    silent, lag = health.silent_seconds, health.loop_lag_seconds
    if not health.is_registered:
        database, schema = Check(False, "the worker has not registered yet"), Check(False, "not compared yet")
    else:
        database, schema = Check(True, f"confirmed a heartbeat {silent:.1f} s ago"), Check(True, "fits")
    if health.is_registered and silent > health.silent_seconds_max:
        database = Check(False, f"has confirmed no heartbeat for {silent:.0f} s")
    elif not health.is_at_home:
        database = Check(False, "is a copy that was not resumed: nothing runs")
    return {
        "database": database,
        "schema": schema,
        "notifications": Check(True, "listening" if health.hears else "polling: no notification arrives"),
        "loop": Check(lag <= LOOP_LAG_SECONDS_MAX, f"{lag:.3f} s late"),
        "worker": Check(not health.is_stopping, "stopping" if health.is_stopping else "serving"),
    }


def readiness(health: Health) -> dict[str, Any]:
    """Return the /readyz document of one worker."""
    found = checks(health)
    return {
        "ready": all(check.ok for check in found.values()),
        "checks": {name: {"ok": check.ok, "says": check.says} for name, check in found.items()},
    }


def is_ready(report: Mapping[str, Any]) -> bool:
    return bool(report.get("ready"))


def readings(health: Health) -> Iterator[Reading]:
    """Return the same as gauges."""
    for metric, value in (
        (metric_definitions.SLOTS, health.slots),
        (metric_definitions.BUSY, health.busy),
        (metric_definitions.WAITING, health.waiting),
        (metric_definitions.UNWRITTEN, health.unwritten),
        (metric_definitions.SILENT, health.silent_seconds),
        (metric_definitions.LAG_NOW, health.loop_lag_seconds),
        (metric_definitions.READY, is_ready(readiness(health))),
    ):
        yield metric, (), float(value)
