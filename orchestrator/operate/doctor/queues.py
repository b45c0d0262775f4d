"""Checks of tasks that wait without need: for a worker, for an operator, for code that no worker has."""

from orchestrator.operate.doctor.finding import NAMED_MAX, Examination, Finding, fail, named, ok, warn
from orchestrator.operate.unknown_types import UNKNOWN_TYPES
from orchestrator.postgres import statement

READY_QUEUES = statement.load(__file__, "ready_queues.sql")
SUSPECTS = statement.load(__file__, "suspects.sql")


def unserved_queues(patient: Examination) -> Finding:
    """Every queue with ready tasks has a worker."""
    rows = patient.rows(READY_QUEUES)
    unserved = [name for name, state, *_, served, _ in rows if state != "paused" and not served]
    if unserved:
        return fail(
            f"tasks are ready, and no live worker serves their queues: {named(unserved)}",
            "Start one that does (--queues), or correct the name where they are enqueued.",
        )
    return ok("every queue with ready tasks has a worker" if rows else "nothing is ready")


def paused_queues(patient: Examination) -> Finding:
    """No queue with ready tasks is paused: the pause may have been forgotten."""
    paused = [row for row in patient.rows(READY_QUEUES) if row[1] == "paused"]
    if not paused:
        return ok("none in which something is ready")
    says = "; ".join(
        f"{name}, by {by or 'an unknown role'} for {hours(seconds)}{f' ({reason})' if reason else ''}"
        for name, _, by, reason, seconds, *_ in paused[:NAMED_MAX]
    )
    return warn(
        f"{len(paused)} paused with ready tasks: {says}",
        "Resume it, if the reason is gone:",
        "\n".join(cure for *_, cure in paused[:NAMED_MAX]),
    )


def unknown_types(patient: Examination) -> Finding:
    """No worker has claimed a task of a type that it does not know."""
    rows = patient.rows(UNKNOWN_TYPES)
    if rows:
        says = ", ".join(f"{kind} ({count} in queue {queue})" for kind, queue, count, *_ in rows[:NAMED_MAX])
        return warn(
            f"workers gave tasks back whose type they do not know: {says}",
            "Deploy workers that know it, or cancel those tasks: SELECT orchestrator.explain(id) tells of each.",
            rows[0][3],
        )
    return ok("none waits")


def suspects(patient: Examination) -> Finding:
    """No task kills workers."""
    rows = patient.rows(SUSPECTS)
    if rows:
        says = ", ".join(
            f"task {number} ({kind}) cost {losses}{', and is a dead letter' if dead_lettered else ''}"
            for number, kind, losses, dead_lettered, _ in rows[:NAMED_MAX]
        )
        return warn(
            f"tasks that cost workers their lives: {says}",
            "Look at what killed them (memory? a crash in C code?), and run that type with executor='process'.",
            rows[0][4],
        )
    return ok("none has cost two workers their lives")


def hours(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
