"""Checks of tasks that wait longer than necessary: for a worker, for an operator, for code that no worker has."""

from orchestrator.operate.doctor.finding import NAMED_MAX, Examination, Finding, fail, named, ok, warn
from orchestrator.operate.unknown_types import UNKNOWN_TYPES
from orchestrator.postgres import statement

READY_QUEUES = statement.load(__file__, "ready_queues.sql")
SUSPECTS = statement.load(__file__, "suspects.sql")


def unserved_queues(database: Examination) -> Finding:
    """Every queue with ready tasks has a worker."""
    rows = database.rows(READY_QUEUES)
    unserved = [name for name, state, *_, served, _ in rows if state != "paused" and not served]
    if unserved:
        return fail(
            f"tasks are ready, and no live worker serves their queues: {named(unserved)}",
            "Start a worker for them (--queues), or correct the name where the tasks are enqueued.",
        )
    return ok("every queue with ready tasks has a worker" if rows else "nothing is ready")


def paused_queues(database: Examination) -> Finding:
    """No queue with ready tasks is paused: the pause may have been forgotten."""
    paused = [row for row in database.rows(READY_QUEUES) if row[1] == "paused"]
    if not paused:
        return ok("none with ready tasks")
    says = "; ".join(
        f"{name}, by {by or 'an unknown role'} for {hours(seconds)}{f' ({reason})' if reason else ''}"
        for name, _, by, reason, seconds, *_ in paused[:NAMED_MAX]
    )
    return warn(
        f"{len(paused)} paused with ready tasks: {says}",
        "Resume it if the reason no longer holds:",
        "\n".join(cure for *_, cure in paused[:NAMED_MAX]),
    )


def unknown_types(database: Examination) -> Finding:
    """No worker has claimed a task of a type that it does not know."""
    rows = database.rows(UNKNOWN_TYPES)
    if rows:
        says = ", ".join(f"{kind} ({count} in queue {queue})" for kind, queue, count, *_ in rows[:NAMED_MAX])
        return warn(
            f"workers gave back tasks of types that they do not know: {says}",
            "Deploy workers that know the type, or cancel those tasks. SELECT orchestrator.explain(id) explains "
            "each.",
            rows[0][3],
        )
    return ok("no such task waits")


def suspects(database: Examination) -> Finding:
    """No task kills workers."""
    rows = database.rows(SUSPECTS)
    if rows:
        says = ", ".join(
            f"task {number} ({kind}): {losses} losses{', and it is a dead letter' if dead_lettered else ''}"
            for number, kind, losses, dead_lettered, _ in rows[:NAMED_MAX]
        )
        return warn(
            f"workers died while they ran these tasks: {says}",
            "Find the cause (memory? a crash in C code?), and run that type with executor='process'.",
            rows[0][4],
        )
    return ok("no task has lost two workers")


def hours(seconds: float) -> str:
    """Return a duration as text."""
    return f"{seconds / 3600:.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
