"""The rights of each role, tested with a login that is its member and nothing more."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from orchestrator.maintain import KINDS
from tests.races import statements
from tests.schema.logins import Login, logins
from tests.schema.role_statements import EDITS, ENQUEUES, KEEPS_HOUSE, OPERATES, READS
from tests.schema.rows import insert, one, put, sleeping_worker

EVERYWHERE = statements.everywhere(["default"])
DENIED = "42501"
BEAT = {
    "beats": True, "draining": False, "beacon": None, "rings": True, "term_seconds": 10, "blocked_seconds": None,
}  # fmt: skip
RELEASE = {"ends": ["waiting"], "delays": [None], "charged": [False], "errors": [None], "records": [None]}
LATE: dict[str, object] = {
    "spares_after_restart": False, "only_ids": None, "gone_ids": [], "gone_beats": [],
    "watched_ids": None, "watched_beats": None,
}  # fmt: skip

MAY = {
    "producer": [ENQUEUES],
    "operator": [READS, OPERATES, KEEPS_HOUSE],
    "reader": [READS],
    "worker": [READS, ENQUEUES, KEEPS_HOUSE],
}


@pytest.fixture
def login(
    administrator: psycopg.Connection, database_url: str, connection: psycopg.Connection
) -> Iterator[Login]:
    """Log in as a new member of one of the roles; of none for the name `public`."""
    put(connection)
    with logins(administrator, database_url) as log_in:
        yield log_in


def verdict(session: psycopg.Connection, statement: str) -> str | None:
    """Return the SQLSTATE with which a statement ends, or None; it is rolled back."""
    try:
        with session.transaction(force_rollback=True):
            session.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("role", ["producer", "operator", "reader", "worker", "public"])
def test_a_role_may_do_its_work_and_nothing_else(login: Login, role: str) -> None:
    """Every statement of every role, and those that no role may run: done or denied."""
    session = login(role)
    may = [statement for group in MAY.get(role, []) for statement in group]
    if role == "reader":
        # A login that can read a beacon can take it.
        may = [s for s in may if s != "TABLE orchestrator.workers"]
        may.append(
            "SELECT id, host, pid, state, beat_at, is_leader, term, leader_until FROM orchestrator.workers"
        )
    tried = [*ENQUEUES, *READS, *OPERATES, *KEEPS_HOUSE, *EDITS]

    seen = {statement: verdict(session, statement) for statement in tried}

    assert {statement: None if statement in may else DENIED for statement in tried} == seen


def test_a_producer_reads_ids_alone(login: Login) -> None:
    """No tasks of others, and no RETURNING of other columns."""
    session = login("producer")
    tried = [
        "SELECT payload FROM orchestrator.tasks",
        "SELECT status, result FROM orchestrator.tasks",
        "SELECT idempotency_key FROM orchestrator.tasks",
        "TABLE orchestrator.tasks_live",
        "INSERT INTO orchestrator.tasks (type) VALUES ('t') RETURNING payload",
        "INSERT INTO orchestrator.tasks (type) VALUES ('t') RETURNING *",
    ]

    assert dict.fromkeys(tried, DENIED) == {statement: verdict(session, statement) for statement in tried}
    assert None is verdict(session, "SELECT id FROM orchestrator.tasks")


def test_a_worker_may_run_every_statement_of_its_stations(
    login: Login, connection: psycopg.Connection
) -> None:
    """A login that is a member of worker only runs one task from claim to end, and gives another back."""
    session = login("worker")
    worker_id = sleeping_worker(connection, "default")
    done, given_back = insert(connection, type="mail"), put(connection)
    connection.execute("DELETE FROM orchestrator.tasks WHERE id NOT IN (%s, %s)", [done, given_back])
    held = {"ids": [done], "leases": [9], "ages": [1000]}
    given = {**EVERYWHERE, "batch_size": 9, "lease": 9, "worker_id": worker_id}

    def run(*where: str, **params: object) -> int:
        return session.execute(statements.load(*where), params).rowcount

    assert 1 == run("claim/sweep.sql", batch_size=9, queues=["default"])
    assert 2 == run("claim/batch.sql", **given)
    assert 3 == run("worker/leases.sql", id=worker_id, ids=[done], leases=[1])
    assert 1 == run("execute/mark_running.sql", **held)
    assert 1 == run("finish/complete.sql", results=["1"], **held)
    assert 1 == run("finish/recorded.sql", **held)
    assert 1 == run(
        "finish/settle.sql", ids=[given_back], leases=[9], ages=[1000], worker_id=worker_id, **RELEASE
    )
    assert 1 == run("worker/beat.sql", id=worker_id, **BEAT)
    assert 1 == run("notify/listen.sql", "beacon", worker_id=worker_id, beacon=1)
    assert 1 == run("lead/lock_leader.sql")
    assert 0 == run("lead/remove_leader.sql", gone_id=None, gone_beat_at=None, term_seconds=10)
    assert 1 == run("lead/become_leader.sql", id=worker_id)
    assert 1 == run("lead/take_term.sql", id=worker_id, term_seconds=10)
    assert 1 == run("lead/fence.sql", id=worker_id, term=1, limit="5s")
    assert 1 == run("maintain/missing_workers.sql", spares_after_restart=False, late=0)
    assert 0 == run("maintain/overdue.sql", margin_seconds=1, most=1)
    assert 1 == run("maintain/recover.sql", batch_size=9, **LATE)
    assert 1 == run("lead/lock_own_row.sql", id=worker_id, term=1)
    assert 1 == run("lead/resign.sql", id=worker_id, term=1)
    assert 1 == run("worker/deregister.sql", id=worker_id)
    assert 8 == run("maintain/partitions.sql", "make_ahead")
    assert 1 == run("maintain/partitions.sql", "drop_old")
    assert 1 == run("maintain/timeouts.sql", margin_seconds=15, batch_size=9, only_ids=None)
    assert 0 == run("maintain/delete_finished.sql", "leaves")
    assert 1 == run(
        "maintain/delete_finished.sql",
        "delete",
        leaf="tasks_done_20300101",
        first_page=0,
        pages=9,
        batch_size=9,
    )
    assert len(KINDS) == sum(run("maintain/retention.sql", kind=kind, batch_size=9) for kind in KINDS)
    assert 1 == run("maintain/sample_scan.sql")
    assert 1 == run("maintain/sample.sql")
    assert 1 == run("schema/compatibility.sql", "revision")
    assert 1 == run("schema/compatibility.sql", "origins")


def test_a_worker_cannot_delete_rows_that_are_not_due(login: Login, connection: psycopg.Connection) -> None:
    """Even with many calls and any arguments. A worker's role cannot set the periods."""
    session = login("worker")
    put(connection, "completed")
    put(connection, "dead_letter")
    insert(connection, type="mail", idempotency_key="k")
    connection.execute(
        "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type) VALUES (1, 1, 'lost', 'q', 't')"
    )
    connection.execute("SELECT orchestrator.pause_queue('default')")
    sleeping_worker(connection)
    connection.execute("UPDATE orchestrator.workers SET state = 'dead'")
    counts = (
        "SELECT ARRAY[(SELECT count(*) FROM orchestrator.tasks), (SELECT count(*) FROM orchestrator.attempts),"
        " (SELECT count(*) FROM orchestrator.audit), (SELECT count(*) FROM orchestrator.idempotency_keys),"
        " (SELECT count(*) FROM orchestrator.workers), (SELECT count(*) FROM orchestrator.day_leaves)]"
    )
    before = one(connection, counts)

    for kind in KINDS:
        for at_most in (10**9, 2**31 - 1):
            purge = sql.SQL("SELECT orchestrator.{}(%s)").format(sql.Identifier(f"purge_{kind}"))
            session.execute(purge, [at_most])
    session.execute(
        "SELECT orchestrator.purge_finished(leaf, 0, 1000000, 1000000) FROM orchestrator.day_leaves"
    )
    session.execute("SET timezone = '-167:59'")
    session.execute("SELECT orchestrator.drop_old_partition() FROM generate_series(1, 9)")

    assert before == one(connection, counts)


def test_a_manual_change_is_recorded_under_the_name_of_its_role(
    login: Login, connection: psycopg.Connection
) -> None:
    """Not under the owner's, although the trigger and the functions run as the owner."""
    session = login("operator")

    session.execute("UPDATE orchestrator.tasks SET priority = 75")
    session.execute("SELECT orchestrator.pause_queue('default')")

    actors = connection.execute("SELECT DISTINCT actor FROM orchestrator.audit").fetchall()
    assert [(session.info.user,)] == actors
    assert session.info.user == one(connection, "SELECT state_by FROM orchestrator.queues")


def test_public_has_nothing(connection: psycopg.Connection) -> None:
    """PUBLIC has no right on the schema, or on a table, sequence or function in it."""
    granted = connection.execute(
        "SELECT o.name FROM ("
        " SELECT relname AS name, relacl AS acl FROM pg_class WHERE relnamespace = 'orchestrator'::regnamespace"
        " UNION ALL SELECT proname, coalesce(proacl, acldefault('f', proowner)) FROM pg_proc"
        " WHERE pronamespace = 'orchestrator'::regnamespace"
        " UNION ALL SELECT nspname, nspacl FROM pg_namespace WHERE nspname = 'orchestrator'"
        ") AS o WHERE EXISTS (SELECT FROM aclexplode(o.acl) AS a WHERE a.grantee = 0)"
    ).fetchall()

    assert [] == granted


def test_every_function_that_runs_as_its_owner_pins_its_path(connection: psycopg.Connection) -> None:
    """pg_temp is last; otherwise a caller's own upper() would run with the owner's rights. The others pin it, too."""
    rows = connection.execute(
        "SELECT proname, 'search_path=pg_catalog, orchestrator, pg_temp' = ANY (coalesce(proconfig, '{}'))"
        " FROM pg_proc WHERE pronamespace = 'orchestrator'::regnamespace"
    ).fetchall()

    assert {"clock", "position_of"} == {name for name, pinned in rows if not pinned}


def test_the_clock_is_the_statements_time_and_nothing_else(connection: psycopg.Connection) -> None:
    """No setting can change it, because any role may change a setting."""
    assert "SELECT pg_catalog.statement_timestamp()" == one(
        connection, "SELECT btrim(prosrc) FROM pg_proc WHERE oid = 'orchestrator.clock'::regproc"
    )
    assert ("s", False) == connection.execute(
        "SELECT provolatile::text, prosecdef FROM pg_proc WHERE oid = 'orchestrator.clock'::regproc"
    ).fetchone()
