"""Check that a claim finds its tasks by their index, on the tables as they are. For `orchestrator doctor`."""

from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from orchestrator.claim.batch import CLAIM, where_to_look
from orchestrator.postgres import statement
from orchestrator.postgres.session import SETTINGS

EXPLAIN = statement.load(__file__, "plan.sql")

PATH = "tasks_live_claim_idx"
TABLE = "tasks_live"
NO_WORKER = UUID(int=0)


def faults_of_plan(connection: psycopg.Connection[Any]) -> list[str]:
    """Return what is wrong with the plan, in a worker's session. Changes nothing. Needs a worker's rights."""
    given = {"lease": 0, "worker_id": NO_WORKER, "batch_size": 100, **where_to_look(["default"], None)}
    with connection.transaction(force_rollback=True), connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(SETTINGS)
        row = cursor.execute(EXPLAIN + CLAIM, given, prepare=False).fetchone()
    assert row is not None  # nosec B101 # noqa: S101 - for the type checker: EXPLAIN has one row
    nodes = list(walked(row[0][0]["Plan"]))
    faults = [f"{TABLE} is read from end to end" for node in nodes if is_whole(node)]
    if not any(node.get("Index Name") == PATH for node in nodes):
        faults.append(f"{PATH} is not used")
    return faults


def walked(node: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a node of a plan and all nodes below it."""
    return [node, *(below for child in node.get("Plans", ()) for below in walked(child))]


def is_whole(node: dict[str, Any]) -> bool:
    """Tell whether a node reads the whole table, or a whole index of it."""
    if node["Node Type"] == "Seq Scan":
        return bool(node["Relation Name"] == TABLE)
    return (
        node["Node Type"].startswith("Index")
        and node.get("Relation Name") == TABLE
        and "Index Cond" not in node
    )
