"""The state of a worker at a moment, and whether it is ready.

    database        it has confirmed a recent heartbeat, and is not a copy that waits for an operator
    schema          it was compared at the start, and fits
    notifications   the worker listens, or polls if none arrive: slower, and still ready
    loop            it is at most one second late

The answer holds no name, address or error of the database: any client may ask.
"""

from dataclasses import asdict, dataclass
from typing import Any

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

    @property
    def is_ready(self) -> bool:
        """Whether the worker is ready."""
        return all(check.ok for check in checks(self).values())


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
    return {
        "ready": health.is_ready,
        "checks": {name: asdict(check) for name, check in checks(health).items()},
    }
