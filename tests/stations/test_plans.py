"""Every statement of a worker uses the right index, with any content of the tables at the time of planning.

The tests prepare the real files in a session with a worker's settings, and explain them with custom and generic
plans, at four moments in the life of one database with 200,000 tasks ready, future and finished. The worst case is a
kept plan: made on empty tables, it would stay until the next ANALYZE. So a session renews its plans every second.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import ClientCursor, sql

import orchestrator
from orchestrator.claim.scan_positions import BACK, FRONT
from orchestrator.postgres.session import REPLAN, REPLAN_EVERY_SECONDS, SETTINGS, Connection, Session
from tests import servers

COUNT = 200_000
BATCH = 300
WORKER = UUID("00000000-0000-4000-8000-000000000001")

CLAIM, DUE, WHOSE, KEY = (
    "tasks_live_claim_idx",
    "tasks_live_due_idx",
    "tasks_live_worker_idx",
    "tasks_live_pkey",
)
PATHS = {
    "claim/batch": {CLAIM},
    "claim/sweep": {DUE, CLAIM},
    "worker/leases": {WHOSE, KEY},
    "claim/remaining": {CLAIM, WHOSE, DUE},
    "execute/mark_running": {KEY},
    "finish/complete": {KEY},
    "finish/settle": {KEY},
    "finish/lock_unlocked": {KEY},
    "finish/recorded": set(),
    "finish/still_leased": {KEY},
    "finish/progress": {KEY},
    "maintain/recover": {WHOSE, KEY},
    "maintain/timeouts": {WHOSE, KEY},
}
"""By statement: the indexes of tasks_live that it uses, these and no other."""

PARAMETERS: dict[str, tuple[str, Any]] = {
    "lease": ("bigint", 5),
    "worker_id": ("uuid", WORKER),
    "id": ("uuid", WORKER),
    "queues": ("text[]", ["queue 0", "queue 1", "queue 2"]),
    "from_positions": ("bigint[]", [FRONT[0]] * 3),
    "from_ids": ("bigint[]", [FRONT[1]] * 3),
    "to_positions": ("bigint[]", [BACK[0]] * 3),
    "to_ids": ("bigint[]", [BACK[1]] * 3),
    "limits": ("smallint[]", [67] * 3),
    "batch_size": ("smallint", 200),
    "payload_bytes": ("integer", 80_000),
    "ids": ("bigint[]", list(range(1000, 1000 + BATCH))),
    "leases": ("bigint[]", [1] * BATCH),
    "results": ("text[]", ["1"] * BATCH),
    "values": ("text[]", ["1"] * BATCH),
    "task_id": ("bigint", 1000),
    "ages": ("bigint[]", [1000] * BATCH),
    "ends": ("text[]", ["waiting", "cancelled", "dead_letter"] * (BATCH // 3)),
    "delays": ("float8[]", [1.0] * BATCH),
    "charged": ("boolean[]", [True] * BATCH),
    "errors": ("text[]", ["{}"] * BATCH),
    "records": ("text[]", ["failed"] * BATCH),
    "spares_after_restart": ("boolean", False),
    "gone_ids": ("uuid[]", []),
    "gone_beats": ("timestamptz[]", []),
    "watched_ids": ("uuid[]", None),
    "watched_beats": ("timestamptz[]", None),
    "margin_seconds": ("float8", 15.0),
    "only_ids": ("bigint[]", None),
    "most": ("bigint", 1000),
}
"""By name: the type under which psycopg sends it, and a value."""

MODES = ("force_custom_plan", "force_generic_plan")
ALONE, HANDLERS = "finish/complete", "in a handler's session"
KEPT = "full since, replanned"
MOMENTS = ("full, statistics of empty tables", "full", "emptied, statistics of full tables", "empty")

# Finished tasks have a lease and a worker, so that the look-up of what was written before has something to miss.
FILL = """
INSERT INTO orchestrator.tasks (
    id, type, queue, priority, max_attempts, timeout, aging_us, run_at, status,
    lease, worker_id, attempt, claimed_at, started_at, finished_at
)
SELECT
    nextval('orchestrator.tasks_id_seq'),
    'mail', 'queue ' || n %% 4, (ARRAY[25, 50, 75])[1 + n %% 3], 4, '5 minutes', 31557600000000000,
    now() + n * CASE WHEN %(status)s = 'scheduled' THEN interval '1 s' ELSE interval '-1 s' END, %(status)s,
    held.lease, held.worker_id, 1, now(), now(), CASE WHEN %(status)s IN ('completed', 'dead_letter') THEN now() END
FROM generate_series(1, %(count)s) AS n
LEFT JOIN (SELECT 1 AS lease, %(worker_id)s::uuid AS worker_id) AS held
    ON %(status)s NOT IN ('pending', 'scheduled')
"""
RECORD = """
INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type, lease)
SELECT n, 1, 'failed', 'queue 0', 'mail', 1 FROM generate_series(1, %s) AS n
"""
REGISTER = """
INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, state)
VALUES (%s, 'host', 1, '0', '{}', 1, %s)
"""


@dataclass
class Plan:
    """What one plan reads: tables and keys in full, and indexes by their table."""

    read_whole: set[str] = field(default_factory=set)
    indexes: dict[str, set[str]] = field(default_factory=dict)


Plans = dict[tuple[str, str, str], Plan]


@pytest.fixture(scope="module")
def plans(administrator: psycopg.Connection, server_url: str, template_database: str) -> Iterator[Plans]:
    """All plans, by time, statement and mode."""
    name = sql.Identifier(f"orchestrator_plans_{uuid4().hex}")
    administrator.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template_database))
    )
    with psycopg.connect(
        servers.url_of(server_url, name.as_string(None).strip('"')), autocommit=True, prepare_threshold=None
    ) as connection:
        yield life(connection)
    administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def life(connection: psycopg.Connection) -> Plans:
    """Take a database from empty to full to empty, and explain everything at each stage."""
    settle(connection)
    connection.execute(REGISTER, [WORKER, "running"])
    for _ in range(300):
        connection.execute(REGISTER, [uuid4(), "stopped"])
    connection.execute("ANALYZE")
    connection.execute("SET plan_cache_mode = force_generic_plan")
    for statement in PATHS:
        prepare(connection, statement)
        explain(connection, statement)

    for status in ("pending", "scheduled", "completed"):
        fill(connection, status, COUNT)
    fill(connection, "running", 1000)
    fill(connection, "dead_letter", 10_000)
    connection.execute(RECORD, [10_000])

    connection.execute(REPLAN)
    found = {(KEPT, s, "force_generic_plan"): explain(connection, s) for s in PATHS}
    found |= explain_all(connection, MOMENTS[0])
    connection.execute("ANALYZE")
    found |= explain_all(connection, MOMENTS[1])
    connection.execute("DELETE FROM ONLY orchestrator.tasks_live WHERE status <> 'running'")
    connection.execute("VACUUM orchestrator.tasks_live")
    found |= explain_all(connection, MOMENTS[2])
    connection.execute("ANALYZE")
    return found | explain_all(connection, MOMENTS[3])


def settle(connection: psycopg.Connection) -> None:
    """Use a worker's settings, but wait for locks: autovacuum may use a table during our ANALYZE."""
    connection.execute(SETTINGS)
    connection.execute("SET lock_timeout = 0")


def fill(connection: psycopg.Connection, status: str, count: int) -> None:
    # A finished task was somebody else's: nobody is to find it among his own.
    worker_id = WORKER if status == "running" else uuid4()
    connection.execute(FILL, {"status": status, "count": count, "worker_id": worker_id})


def explain_all(connection: psycopg.Connection, moment: str) -> Plans:
    """Explain every statement again, in both modes."""
    found = {}
    for mode in MODES:
        connection.execute(sql.SQL("SET plan_cache_mode = {}").format(sql.Identifier(mode)))
        for statement in PATHS:
            connection.execute(sql.SQL("DEALLOCATE {}").format(sql.Identifier(statement)))
            prepare(connection, statement)
            found[moment, statement, mode] = explain(connection, statement)
    found[moment, ALONE, HANDLERS] = explain_for_a_handler(connection)
    return found


def explain_for_a_handler(connection: psycopg.Connection) -> Plan:
    """Explain the completion of one task in its handler's own transaction: planned each time, without our settings."""
    connection.execute("SET plan_cache_mode = force_custom_plan")
    for setting in ("enable_seqscan", "enable_bitmapscan", "jit"):
        connection.execute(sql.SQL("RESET {}").format(sql.Identifier(setting)))
    one = {
        name: (kind, value[:1] if isinstance(value, list) else value)
        for name, (kind, value) in PARAMETERS.items()
    }
    plan = explain(connection, ALONE, one)
    settle(connection)
    return plan


def text_of(statement: str) -> str:
    """Return the statement's file, without the comments."""
    path = Path(orchestrator.__file__).parent / f"{statement}.sql"
    return re.sub(r"--.*", "", path.read_text())


def names_of(statement: str) -> list[str]:
    """Return the statement's parameters in the order in which they first occur."""
    return list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text_of(statement))))


def prepare(connection: psycopg.Connection, statement: str) -> None:
    """Prepare a statement under its own name, like psycopg: with $1 in place of %(name)s."""
    names = names_of(statement)
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text_of(statement))
    types = ", ".join(PARAMETERS[name][0] for name in names)
    head = sql.SQL("PREPARE {} {} AS ").format(
        sql.Identifier(statement),
        sql.SQL(f"({types})" if types else ""),
    )
    connection.execute(head.as_bytes(connection) + numbered.replace("%%", "%").encode())


def explain(
    connection: psycopg.Connection, statement: str, given: dict[str, tuple[str, Any]] = PARAMETERS
) -> Plan:
    values = [given[name] for name in names_of(statement)]
    arguments = ", ".join(f"%s::{kind}" for kind, _ in values)
    query = sql.SQL("EXPLAIN (FORMAT JSON) EXECUTE {} {}").format(
        sql.Identifier(statement),
        sql.SQL(f"({arguments})" if arguments else ""),
    )
    row = ClientCursor(connection).execute(query, [value for _, value in values]).fetchone()
    assert row is not None
    plan = Plan()
    read(row[0][0]["Plan"], plan)
    return plan


def read(node: dict[str, Any], plan: Plan) -> None:
    """Collect what a node and all nodes below it read."""
    match node["Node Type"]:
        case "Seq Scan":
            plan.read_whole.add(node["Relation Name"])
        case "Index Scan" | "Index Only Scan" if node["Index Name"] == KEY and "Index Cond" not in node:
            plan.read_whole.add(KEY)
        case "Index Scan" | "Index Only Scan":
            plan.indexes.setdefault(node["Relation Name"], set()).add(node["Index Name"])
        case "Bitmap Heap Scan":
            plan.read_whole.add(f"{node['Relation Name']} (bitmap)")
    for child in node.get("Plans", ()):
        read(child, plan)


def off_their_paths(plans: Plans, *keys: tuple[str, str, str]) -> Plans:
    """Return the plans that read a table from end to end, or use other indexes than their statement's."""
    return {
        key: plans[key]
        for key in keys
        if plans[key].read_whole or plans[key].indexes.get("tasks_live", set()) != PATHS[key[1]]
    }


# One test for all plans: pytest processes that divide the plans among them would each fill a database, for 4 s of CPU.
def test_a_statement_takes_its_path(plans: Plans) -> None:
    """Through the indexes in its header; no table is read in full."""
    assert {} == off_their_paths(plans, *product(MOMENTS, PATHS, MODES))


def test_a_plan_made_for_empty_tables_is_not_kept(plans: Plans) -> None:
    """After many tasks arrive at once, an idle worker uses plans for the present tables."""
    assert {} == off_their_paths(plans, *((KEPT, statement, "force_generic_plan") for statement in PATHS))


def test_a_completion_in_a_handlers_transaction_takes_the_path_of_a_batch(plans: Plans) -> None:
    """Although the session is the user's, without our settings. On small tables any path is good."""
    assert {} == off_their_paths(plans, *((moment, ALONE, HANDLERS) for moment in MOMENTS[:2]))


async def test_a_session_has_its_statements_planned_anew(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most a second after the tables changed, if it works; a kept plan would assume one row."""
    monkeypatch.setattr("orchestrator.postgres.session.REPLAN_AFTER_WORK_SECONDS", 0.0)

    async def reckoned(connection: Connection) -> int:
        cursor = await connection.execute("EXPLAIN (FORMAT JSON) EXECUTE all_rows")
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0][0]["Plan"]["Plan Rows"])

    async def prepare_on_empty(connection: Connection) -> None:
        await connection.execute("CREATE TABLE public.things AS SELECT 1 AS thing; ANALYZE public.things")
        await connection.execute("PREPARE all_rows AS SELECT thing FROM public.things")
        assert 1 == await reckoned(connection)
        await connection.execute("INSERT INTO public.things SELECT generate_series(1, 10000)")
        assert 1 == await reckoned(connection)

    session = Session(database_url, purpose="test")
    await session.run(prepare_on_empty, give_up_on=lambda _error: True)
    # Ends: a second passes.
    async with asyncio.timeout(10 * REPLAN_EVERY_SECONDS):
        while await session.run(reckoned, give_up_on=lambda _error: True) == 1:  # noqa: ASYNC110 - polled
            await asyncio.sleep(0.01)
    await session.close()
