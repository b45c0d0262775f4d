"""The effects of a manual UPDATE of a task: refused, or completed to a consistent row."""

from dataclasses import replace

from orchestrator.task.status import FINISHED, LEASED
from tests.stateful.interface import Edit, Refused
from tests.stateful.rows import Task


def edited(old: Task, edit: Edit, now: int) -> Task:
    """Return the task after the change."""
    given = {
        name: value for name in ("status", "priority", "run_at") if (value := getattr(edit, name)) is not None
    }
    new = replace(old, **given)
    if new == old:
        return old
    waited = old.status not in LEASED | FINISHED
    if not 0 <= new.priority <= 100:
        raise Refused("OR006")
    if old.status in FINISHED and new.status == old.status:
        raise Refused("OR001")
    if new.run_at != old.run_at:
        new = dated(new, now, may=waited or new.status in ("pending", "scheduled"))
    elif (
        (old.status, new.status) == ("scheduled", "pending")
        and new.priority == old.priority
        and old.run_at <= now
    ):
        # The same as a sweep: the task keeps its position.
        return new
    if new.status == old.status:
        return new
    match new.status:
        case "cancelled" if old.finished_at is None:
            return replace(new, finished_at=now, lease=None)
        case "scheduled" if new.run_at > now and new.run_at != old.run_at:
            pass
        case "pending" if new.run_at == old.run_at:
            new = replace(new, run_at=now)
        case "pending":
            pass
        case _:
            raise Refused("OR001")
    if not waited:
        new = replace(new, attempt=0, losses=0, error=None, result=None)
    return replace(new, lease=None, worker=None, claimed_at=None, started_at=None, finished_at=None)


def dated(new: Task, now: int, *, may: bool) -> Task:
    """A new run_at decides between scheduled and pending, also together with other changes."""
    if not may:
        raise Refused("OR001")
    if new.status in ("pending", "scheduled"):
        return replace(new, status="scheduled" if new.run_at > now else "pending")
    return new
