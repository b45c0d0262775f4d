"""Do something to one task, given by its id: requeue, cancel or delete it, or change its priority.

An act that makes no sense is refused, and the message says what to do instead. An unknown id is an error, so that a
typing error does not look like success.
"""

from typing import Any

import psycopg

from orchestrator.errors import OperationRefused, TaskExpired
from orchestrator.operate import bulk, find
from orchestrator.operate.filters import Search
from orchestrator.operate.search import Action
from orchestrator.operate.state import CANCEL, translated
from orchestrator.postgres import statement
from orchestrator.task.status import Status

STATEMENTS = {
    Action.REQUEUE: statement.load(__file__, "single.sql", "requeue"),
    Action.CANCEL: CANCEL,
    Action.DELETE: statement.load(__file__, "single.sql", "delete"),
    Action.PRIORITY: statement.load(__file__, "single.sql", "priority"),
}


def act(
    connection: psycopg.Connection[Any],
    action: Action,
    task_id: int,
    *,
    priority: int | None = None,
    reason: str | None = None,
) -> None:
    """Do the act in a transaction of its own; OperationRefused and TaskExpired say why it was not done."""
    given = {"id": task_id, "priority": priority, "reason": reason}
    with translated(task_id):
        if bulk.attempt(connection, (STATEMENTS[action], given), reason):
            return
    found = find.page(connection, Search(ids=(task_id,)), after=None, most=1).tasks
    if not found:
        raise TaskExpired(task_id)
    raise OperationRefused(f"task {task_id}: {bulk.advice(action, Status(found[0].status))}")
