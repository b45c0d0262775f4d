"""Make all checks, one after the other. A check that cannot be made does not stop the others."""

from collections.abc import Callable
from dataclasses import replace

import psycopg
from psycopg import errors

from orchestrator.errors import OrchestratorError
from orchestrator.operate.doctor import notifications, queues, server, sessions, tables, workers
from orchestrator.operate.doctor.finding import Examination, Finding, skipped
from orchestrator.postgres import statement

BOUNDS = statement.load(__file__, "examine.sql")

Check = Callable[[Examination], Finding]

CHECKS: tuple[Check, ...] = (
    server.server_version,
    server.takes_writes,
    tables.schema,
    tables.roles,
    tables.copy,
    server.durability,
    server.session_settings,
    server.transaction_ids,
    sessions.connections,
    sessions.tls,
    sessions.search_path,
    sessions.clock,
    sessions.driver,
    notifications.notifications,
    notifications.notification_queue,
    tables.indexes,
    tables.claim_plan,
    tables.autovacuum,
    tables.dead_rows,
    sessions.horizon,
    tables.index_bloat,
    tables.day_leaves,
    workers.workers,
    workers.leader,
    workers.event_loops,
    workers.worker_versions,
    queues.unserved_queues,
    queues.paused_queues,
    queues.unknown_types,
    queues.suspects,
)


def examine(database: Examination) -> list[Finding]:
    """Make every check; a check comes after those that it relies on."""
    return [make(check, database) for check in CHECKS]


def make(check: Check, database: Examination) -> Finding:
    """Make one check. A check that cannot be made is skipped, with the reason."""
    try:
        with database.connection.transaction(force_rollback=True):
            database.connection.execute(BOUNDS)
            found = check(database)
    except OrchestratorError as error:
        found = skipped(str(error))
    except psycopg.Error as error:
        if database.connection.closed:
            raise
        found = skipped(reason(error))
    return replace(found, name=name_of(check))


def name_of(check: Check) -> str:
    """Return the name of a check."""
    return check.__name__.replace("_", " ")


def reason(error: psycopg.Error) -> str:
    """Say why a check could not be made."""
    message = error.diag.message_primary or str(error).strip()
    match error:
        case errors.InsufficientPrivilege():
            return f"this role may not read it: {message}"
        case (
            errors.UndefinedTable()
            | errors.UndefinedFunction()
            | errors.UndefinedColumn()
            | errors.InvalidSchemaName()
        ):
            return f"the schema is missing, or of another version: {message}"
        case errors.QueryCanceled() | errors.LockNotAvailable():
            return f"the server took too long: {message}"
        case _:
            return f"the statement failed: {message}"
