"""Compose the statements that find tasks by an operator's filters. No other module composes SQL.

Every piece of SQL is a constant here. User input is always a parameter, also each name of a queue, a type or a step in
a payload. Text with `*` becomes a LIKE pattern in which no other character is special.

A status decides the leaf. So a statement always compares the status with a list that is known at planning, and the
planner leaves out the other leaves. Finished tasks lie in one leaf per day, so their age is a condition on
`finished_at` itself. No statement is prepared: a plan kept for other filters would fit badly.

Lists are sorted by id, the only order for which every leaf has an index: a page costs the same, however many rows come
before it. A list never reads a payload or a whole message.

Lock order: an act locks tasks by id, and skips tasks that another transaction has locked.
"""

from collections.abc import Iterator
from enum import StrEnum

from psycopg import sql

from orchestrator.operate.filters import Search, pattern, uuid_range
from orchestrator.task.status import FINISHED, Status

Statement = tuple[sql.Composed, dict[str, object]]


class Action(StrEnum):
    """An act on tasks."""

    REQUEUE = "requeue"
    CANCEL = "cancel"
    DELETE = "delete"
    PRIORITY = "priority"


# The filters that may have `*`: the expression that each compares.
TEXTS = {
    "queues": sql.SQL("t.queue"),
    "types": sql.SQL("t.type"),
    "keys": sql.SQL("t.idempotency_key"),
    "error_classes": sql.SQL("coalesce(t.error ->> 'class', '')"),
}
EXACTLY = sql.SQL("{} = ANY ({}::text[])")
LIKE = sql.SQL("{} LIKE ANY ({}::text[])")
EITHER = sql.SQL("({} OR {})")
AND = sql.SQL("\n        AND ")

STATUSES = sql.SQL("t.status = ANY (%(statuses)s::text[])")
IDS = sql.SQL("t.id = ANY (%(ids)s::bigint[])")
TAGS = sql.SQL("t.tags @> %(tags)s::text[]")
ERROR_TEXT = sql.SQL("strpos(lower(t.error ->> 'message'), lower(%(error_text)s::text)) > 0")
PAYLOAD = sql.SQL("t.payload #> {}::text[] = {}::jsonb")
WORKER_ID = sql.SQL("t.worker_id BETWEEN %(worker_from)s::uuid AND %(worker_to)s::uuid")
WORKER_HOST = sql.SQL(
    "t.worker_id = ANY (ARRAY(SELECT w.id FROM orchestrator.workers AS w WHERE w.host = %(worker)s::text))"
)
FAULT = sql.SQL(
    """t.type = %(fault_type)s::text
        AND coalesce(t.error ->> 'class', '') = %(fault_class)s::text
        AND orchestrator.normalised(t.error ->> 'message') = %(fault_message)s::text"""
)
AGE = {
    True: sql.SQL("t.finished_at"),
    False: sql.SQL("t.created_at"),
    None: sql.SQL("coalesce(t.finished_at, t.created_at)"),
}
BEFORE = sql.SQL("{} < %(before)s::timestamptz")
SINCE = sql.SQL("{} >= %(since)s::timestamptz")
BELOW = sql.SQL("(%(after)s::bigint IS NULL OR t.id < %(after)s::bigint)")
ABOVE = sql.SQL("t.id > %(after)s::bigint AND t.id <= %(upto)s::bigint")

LISTED = sql.SQL(
    """SELECT t.id, t.status, t.queue, t.type, t.priority, t.attempt, t.max_attempts, t.created_at, t.run_at,
        t.started_at, t.finished_at, t.worker_id, t.idempotency_key, t.tags, t.error ->> 'class',
        left(t.error ->> 'message', 500)
    FROM orchestrator.tasks AS t
    WHERE {}
    ORDER BY t.id {}
    LIMIT %(most)s"""
)
EXPORTED = sql.SQL(
    """SELECT t.id, t.status, t.queue, t.type, t.priority, t.attempt, t.max_attempts, t.losses, t.created_at, t.run_at,
        t.claimed_at, t.started_at, t.finished_at, t.timeout, t.worker_id, t.idempotency_key, t.tags, t.payload::text,
        t.metadata::text, t.result::text, t.error::text, t.progress::text, t.trace_context::text
    FROM orchestrator.tasks AS t
    WHERE {}
    ORDER BY t.id
    LIMIT %(most)s"""
)
COUNTED = sql.SQL(
    "SELECT count(*) FROM (SELECT FROM orchestrator.tasks AS t WHERE {} LIMIT %(most)s) AS found"
)
ESTIMATED = sql.SQL("EXPLAIN (FORMAT JSON) SELECT FROM orchestrator.tasks AS t WHERE {}")
# With no filter but the leaves: the planner then reads the ends of their primary keys.
SPANNED = sql.SQL("SELECT min(t.id), max(t.id) FROM orchestrator.tasks AS t WHERE {} AND t.id > %(after)s")

# Finds first and then locks, so that it can report the skipped tasks. It checks the condition again, because a task may
# have changed meanwhile; the server rechecks a row that changed before the lock.
BATCH = sql.SQL(
    """WITH found AS MATERIALIZED (
        SELECT t.id FROM orchestrator.tasks AS t
        WHERE {condition}
        AND {window}
        ORDER BY t.id
        LIMIT %(most)s
    ),
    locked AS MATERIALIZED (
        SELECT t.id FROM orchestrator.tasks AS t
        WHERE t.id = ANY (ARRAY(SELECT f.id FROM found AS f))
        AND {condition}
        ORDER BY t.id
        FOR UPDATE SKIP LOCKED
    ),
    done AS ({action} RETURNING t.id)
    SELECT
        (SELECT count(*) FROM found),
        (SELECT max(f.id) FROM found AS f),
        (SELECT count(*) FROM done),
        (SELECT min(f.id) FROM found AS f WHERE f.id NOT IN (SELECT l.id FROM locked AS l)),
        (SELECT max(f.id) FROM found AS f WHERE f.id NOT IN (SELECT l.id FROM locked AS l))"""
)
THESE = sql.SQL("t.id = ANY (ARRAY(SELECT l.id FROM locked AS l)) AND t.status = ANY (%(statuses)s::text[])")
ACTIONS = {
    Action.REQUEUE: sql.SQL("UPDATE orchestrator.tasks AS t SET status = 'pending' WHERE {}"),
    Action.CANCEL: sql.SQL("UPDATE orchestrator.tasks AS t SET status = 'cancelled' WHERE {}"),
    Action.DELETE: sql.SQL("DELETE FROM orchestrator.tasks AS t WHERE {}"),
    Action.PRIORITY: sql.SQL("UPDATE orchestrator.tasks AS t SET priority = %(priority)s WHERE {}"),
}
OTHER_PRIORITY = sql.SQL("t.priority <> %(priority)s")
# Another task has taken the key of the cancelled task: its requeue would be refused, and with it the whole batch.
KEY_IS_ITS_OWN = sql.SQL(
    "NOT (t.status = 'cancelled' AND orchestrator.key_has_passed(t.type, t.idempotency_key, t.id))"
)


def page(wanted: Search, *, after: int | None, most: int) -> Statement:
    """List the tasks with the highest ids below `after`."""
    condition, values = met(wanted)
    statement = LISTED.format(AND.join([condition, BELOW]), sql.SQL("DESC"))
    return statement, {**values, "after": after, "most": most}


def first(wanted: Search, *, most: int) -> Statement:
    """List the tasks with the lowest ids: an act begins with them."""
    condition, values = met(wanted)
    return LISTED.format(condition, sql.SQL("ASC")), {**values, "most": most}


def export(wanted: Search, *, after: int, upto: int, most: int) -> Statement:
    """Read whole tasks above `after`, the lowest ids first."""
    condition, values = met(wanted)
    statement = EXPORTED.format(AND.join([condition, ABOVE]))
    return statement, {**values, "after": after, "upto": upto, "most": most}


def count(wanted: Search, *, most: int) -> Statement:
    """Count the tasks, up to a limit."""
    condition, values = met(wanted)
    return COUNTED.format(condition), {**values, "most": most}


def estimate(wanted: Search) -> Statement:
    """Ask the planner for an estimate of their number."""
    condition, values = met(wanted)
    return ESTIMATED.format(condition), values


def span(wanted: Search, *, after: int) -> Statement:
    """Return the lowest and the highest id above `after` in the leaves that may hold the tasks."""
    leaves = {leaf(status) for status in wanted.statuses or Status}
    beside = [each.value for each in Status if leaf(each) in leaves]
    return SPANNED.format(STATUSES), {"statuses": beside, "after": after}


def batch(
    action: Action, wanted: Search, *, after: int, upto: int, most: int, priority: int | None = None
) -> Statement:
    """Do the act to a limited number of tasks with ids above `after`, up to `upto`; report the skipped ones."""
    condition, values = met(wanted)
    if action is Action.PRIORITY:
        condition = AND.join([condition, OTHER_PRIORITY])
    if action is Action.REQUEUE and Status.CANCELLED in (wanted.statuses or Status):
        condition = AND.join([condition, KEY_IS_ITS_OWN])
    statement = BATCH.format(condition=condition, window=ABOVE, action=ACTIONS[action].format(THESE))
    return statement, {**values, "after": after, "upto": upto, "most": most, "priority": priority}


def met(wanted: Search) -> Statement:
    """Return the condition for the tasks, and its parameters."""
    values: dict[str, object] = {}
    return AND.join(list(conditions(wanted, values))), values


def conditions(wanted: Search, values: dict[str, object]) -> Iterator[sql.Composable]:
    """Yield one condition for each filter, and put its parameters into `values`."""
    values["statuses"] = [status.value for status in wanted.statuses or Status]
    yield STATUSES
    if wanted.ids:
        values["ids"] = list(wanted.ids)
        yield IDS
    for field, compared in TEXTS.items():
        if given := getattr(wanted, field):
            yield alike(field, compared, given, values)
    if wanted.tags:
        values["tags"] = list(wanted.tags)
        yield TAGS
    if wanted.error_text:
        values["error_text"] = wanted.error_text
        yield ERROR_TEXT
    for number, each in enumerate(wanted.payload):
        path, value = f"path_{number}", f"value_{number}"
        values |= {path: list(each.path), value: each.value}
        yield PAYLOAD.format(sql.Placeholder(path), sql.Placeholder(value))
    if wanted.worker:
        yield worker(wanted.worker, values)
    if wanted.fault:
        fault = wanted.fault
        values |= {"fault_type": fault.type, "fault_class": fault.error_class, "fault_message": fault.message}
        yield FAULT
    yield from ages(wanted, values)


def alike(
    field: str, compared: sql.Composable, given: tuple[str, ...], values: dict[str, object]
) -> sql.Composable:
    """Compare exactly with plain values, and by pattern with values that have `*`."""
    exact, patterns = field, f"{field}_like"
    values[exact] = [each for each in given if "*" not in each]
    values[patterns] = [pattern(each) for each in given if "*" in each]
    exactly = EXACTLY.format(compared, sql.Placeholder(exact))
    like = LIKE.format(compared, sql.Placeholder(patterns))
    if not values[patterns]:
        return exactly
    return EITHER.format(exactly, like) if values[exact] else like


def worker(given: str, values: dict[str, object]) -> sql.Composable:
    """Compare with the beginning of the worker's id, or with its host."""
    if (ends := uuid_range(given)) is not None:
        values["worker_from"], values["worker_to"] = ends
        return WORKER_ID
    values["worker"] = given
    return WORKER_HOST


def leaf(status: Status) -> str:
    """Return the table that holds tasks of this status."""
    if status not in FINISHED:
        return "tasks_live"
    return "tasks_dead" if status is Status.DEAD_LETTER else "tasks_done"


def ages(wanted: Search, values: dict[str, object]) -> Iterator[sql.Composable]:
    finished = {status in FINISHED for status in wanted.statuses or Status}
    compared = AGE[finished.pop() if len(finished) == 1 else None]
    if wanted.before is not None:
        values["before"] = wanted.before
        yield BEFORE.format(compared)
    if wanted.since is not None:
        values["since"] = wanted.since
        yield SINCE.format(compared)
