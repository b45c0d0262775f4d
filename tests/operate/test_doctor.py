"""The checks of `orchestrator doctor`: each failure is provoked on a real server, and its statement repairs it if it
can. A correct installation passes all of them."""

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from orchestrator import Orchestrator
from orchestrator.cli import orchestrator
from orchestrator.operate.doctor import (
    Examination,
    Finding,
    examine,
    notifications,
    queues,
    server,
    sessions,
    tables,
    workers,
)
from orchestrator.operate.doctor.examine import CHECKS, make, name_of
from orchestrator.schema import migrate
from orchestrator.version import __version__
from tests import bouncer
from tests.operate.private_server import patient_of, slot_with_a_snapshot
from tests.operate.private_server import private_server as opened
from tests.operate.worker_rows import darkened, hired
from tests.patience import eventually
from tests.schema.logins import logins
from tests.schema.rows import names_unchecked, one, put
from tests.servers import Server
from tests.worker.running import until, working

LOST = Jsonb({"class": "WorkerLost", "message": "worker a was gone while it ran this"})
FILL: LiteralString = """
INSERT INTO orchestrator.tasks (id, type, queue, status, priority, max_attempts, timeout, aging_us, run_at)
SELECT nextval('orchestrator.tasks_id_seq'),
    'mail', 'default', 'pending', 50, 4, '5 min', 0, '2026-01-01' FROM generate_series(1, %s)
"""


@pytest.fixture
def database(connection: psycopg.Connection, database_url: str) -> Examination:
    """The test's database, examined by its owner."""
    return patient_of(connection, database_url)


@pytest.fixture(scope="module")
def private_server(server_url: str) -> Iterator[Server]:
    """A server of our own, with our schema in its database `postgres`."""
    with opened(server_url) as server:
        migrate.upgrade(server.url())
        yield server


@pytest.fixture
def inmate(private_server: Server) -> Iterator[Examination]:
    """The database of that server."""
    with psycopg.connect(private_server.url(), autocommit=True) as connection:
        yield patient_of(connection, private_server.url())


def follow(database: Examination, found: Finding) -> None:
    """Run the advised statement."""
    assert found.statement is not None
    for statement in found.statement.split(";\n"):
        database.connection.execute(statement.encode())


@contextmanager
def with_setting(database: Examination, name: str, value: str) -> Iterator[Examination]:
    """Yield the same database with a setting of its own, for new sessions."""
    own = sql.Identifier(database.connection.info.dbname)
    database.connection.execute(
        sql.SQL("ALTER DATABASE {} SET {} = {}").format(own, sql.Identifier(name), sql.Literal(value))
    )
    with database.another() as connection:
        yield dataclasses.replace(database, connection=connection)
        connection.rollback()
    database.connection.execute("SET default_transaction_read_only = off")
    database.connection.execute(sql.SQL("ALTER DATABASE {} RESET ALL").format(own))


# An installation in order.


def test_a_correct_installation_passes_all_checks(private_server: Server) -> None:
    """With a real worker, on a server with default settings: every check is ok, and the exit status is 0, with
    --strict, too."""
    app = Orchestrator(private_server.url(), heartbeat_seconds=0.2, dead_after_seconds=30.0)

    async def look() -> tuple[Result, Result]:
        with psycopg.connect(private_server.url(), autocommit=True) as connection:
            async with working(app):
                await until(lambda: one(connection, "SELECT count(*) FROM orchestrator.leader"), "it leads")
                return await asyncio.to_thread(doctor, "--json", "--strict"), await asyncio.to_thread(doctor)

    def doctor(*words: str) -> Result:
        return CliRunner().invoke(orchestrator, ["doctor", *words, "--url", private_server.url()])

    strict, shown = asyncio.run(look())
    app.close()

    findings = json.loads(strict.stdout)
    assert [] == [found for found in findings if found["verdict"] != "ok"]
    assert [name_of(check) for check in CHECKS] == [found["name"] for found in findings]
    assert (0, 0) == (strict.exit_code, shown.exit_code)
    assert f"{len(CHECKS)} well" == shown.stdout.splitlines()[-1]
    assert all(line.startswith("✓ ") for line in shown.stdout.splitlines()[:-1])


@pytest.mark.parametrize(("words", "status"), [((), 0), (("--strict",), 1)])
def test_failures_come_first_with_their_advice(
    inmate: Examination, words: tuple[str, ...], status: int
) -> None:
    """A warning fails only with --strict. Untrusted text is escaped."""
    put(inmate.connection, queue="\x1b[2Jmail")
    with names_unchecked(inmate.connection):
        inmate.connection.execute("SELECT orchestrator.pause_queue(%s)", ["\x1b[2Jmail"])
    hired(inmate.connection, leads=True, version=__version__)

    done = CliRunner().invoke(orchestrator, ["doctor", "--url", inmate.connection.info.dsn, *words])
    inmate.connection.execute("DELETE FROM orchestrator.tasks")
    inmate.connection.execute("DELETE FROM orchestrator.workers")
    inmate.connection.execute("DELETE FROM orchestrator.queues WHERE name <> 'default'")

    assert status == done.exit_code
    lines = done.stdout.splitlines()
    assert lines[0].startswith("! paused queues       1 paused with ready tasks: \\x1b[2Jmail, by postgres")
    assert [
        "Resume it if the reason no longer holds:",
        "SELECT orchestrator.resume_queue('\\x1b[2Jmail');",
    ] == [line.strip() for line in lines[1:3]]
    assert f"1 to look into, {len(CHECKS) - 1} well" == lines[-1]


# The server.


def test_an_old_server_is_reported(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """The required version is raised for the test, because no older server runs here."""
    assert "ok" == make(server.server_version, database).verdict
    monkeypatch.setattr(server, "OLDEST_SERVER", 99)

    found = make(server.server_version, database)

    assert "fail" == found.verdict
    assert "orchestrator needs 99 or newer" in found.says


def test_sessions_that_may_not_write(database: Examination) -> None:
    """A failover often leaves this state."""
    with with_setting(database, "default_transaction_read_only", "on") as hurt:
        found = make(server.takes_writes, hurt)

    assert ("fail", "takes writes") == (found.verdict, found.name)
    assert "sessions may not write" in found.says


def test_a_server_that_is_not_durable(database: Examination, inmate: Examination) -> None:
    """As servers of tests are; and one that confirms before it has written."""
    assert "fsync is off" in make(server.durability, database).says
    assert "ok" == make(server.durability, inmate).verdict
    with with_setting(inmate, "synchronous_commit", "off") as careless:
        found = make(server.durability, careless)

    assert "warn" == found.verdict
    assert "synchronous_commit is off" in found.says


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("idle_session_timeout", "60000"),
        ("transaction_timeout", "5000"),
        ("default_transaction_isolation", "repeatable read"),
    ],
)
def test_a_harmful_setting(database: Examination, name: str, value: str) -> None:
    """The statement resets it for this role."""
    if name == "transaction_timeout" and database.connection.info.server_version < 170_000:
        pytest.skip("PostgreSQL 17 brought it")
    with with_setting(database, name, value) as hurt:
        found = make(server.session_settings, hurt)

    assert "warn" == found.verdict
    assert f"{name} is {value}: it " in found.says
    # Not followed here: it would stay with the role, for all databases.
    with database.connection.transaction(force_rollback=True):
        follow(database, found)


def test_the_wraparound(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the age of unfrozen rows."""
    monkeypatch.setattr(server, "TRANSACTION_IDS_WARN", 1)
    assert "warn" == make(server.transaction_ids, database).verdict
    monkeypatch.setattr(server, "TRANSACTION_IDS_FAIL", 1)

    found = make(server.transaction_ids, database)

    assert "fail" == found.verdict
    follow(database, found)


# Sessions.


def test_few_sessions_are_left(inmate: Examination) -> None:
    """First a warning, then a failure."""
    assert "ok" == make(sessions.connections, inmate).verdict
    used, at_most, _ = inmate.row(sessions.CONNECTIONS)
    others = [inmate.another() for _ in range(at_most - used - sessions.FREE_FAIL)]
    scarce = make(sessions.connections, inmate)
    others.append(inmate.another())
    urgent = make(sessions.connections, inmate)
    for other in others:
        other.close()

    assert ("warn", "fail") == (scarce.verdict, urgent.verdict)
    follow(inmate, urgent)


@pytest.mark.parametrize(
    ("host", "address", "mode", "encrypted", "verdict"),
    [
        ("/run/postgresql", "", "prefer", False, "ok"),
        ("localhost", "127.0.0.1", "prefer", False, "ok"),
        ("localhost", "::1", "prefer", False, "ok"),
        ("db", "10.0.0.7", "disable", False, "warn"),
        ("db", "10.0.0.7", "prefer", False, "warn"),
        ("db", "10.0.0.7", "prefer", True, "warn"),
        ("db", "10.0.0.7", "require", True, "warn"),
        ("db", "fe80::1%eth0", "require", True, "warn"),
        ("db", "10.0.0.7", "verify-ca", True, "ok"),
        ("db", "10.0.0.7", "verify-full", True, "ok"),
    ],
)
def test_the_connection_to_the_server(
    host: str, address: str, mode: str, encrypted: bool, verdict: str
) -> None:
    """On another machine only an encrypted and verified connection is ok."""
    assert verdict == sessions.judged(host, address, mode, encrypted=encrypted).verdict


def test_a_socket_and_the_loopback_need_no_tls(database: Examination, inmate: Examination) -> None:
    """The embedded server uses a socket, the other one the loopback."""
    assert ["ok", "ok"] == [make(sessions.tls, each).verdict for each in (database, inmate)]


@pytest.mark.parametrize(
    ("seconds", "says"), [(-60, "s behind the server's"), (60, "s ahead of the server's")]
)
def test_a_clock_that_is_wrong(database: Examination, seconds: float, says: str) -> None:
    """This host's clock; the server's is the one that counts."""
    found = make(sessions.clock, dataclasses.replace(database, now=lambda: time.time() + seconds))

    assert "warn" == found.verdict
    assert says in found.says


def test_the_driver_without_its_compiled_part(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is much slower."""
    monkeypatch.setattr(pq, "__impl__", "python")

    assert "warn" == make(sessions.driver, database).verdict


def test_a_snapshot_that_is_held(
    inmate: Examination, private_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a session, a prepared transaction, a slot: each is named, and its statement ends it."""
    assert "ok" == make(sessions.horizon, inmate).verdict
    monkeypatch.setattr(sessions, "HORIZON_WARN_SECONDS", 0.0)
    monkeypatch.setattr(sessions, "HORIZON_WARN_TRANSACTIONS", 0)
    reader = psycopg.connect(private_server.url(), application_name="a report")
    reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    reader.execute("SELECT")
    pid = reader.info.backend_pid
    session = make(sessions.horizon, inmate)
    follow(inmate, session)
    reader.close()
    eventually(lambda: make(sessions.horizon, inmate).verdict == "ok", "it is gone")
    inmate.connection.execute("BEGIN; CREATE TABLE left_over (); PREPARE TRANSACTION 'it''s left'")
    prepared = make(sessions.horizon, inmate)
    follow(inmate, prepared)
    with slot_with_a_snapshot(
        private_server.url(), "forgotten", one(inmate.connection, "SELECT txid_current()::bigint")
    ):
        eventually(lambda: make(sessions.horizon, inmate).verdict == "warn", "the slot has its snapshot")
    eventually(lambda: make(sessions.horizon, inmate).says.count("inactive"), "its follower has gone")
    slot = make(sessions.horizon, inmate)
    follow(inmate, slot)

    assert f"session {pid} (a report, user postgres, idle in transaction) holds a snapshot" in session.says
    assert "prepared transaction it's left (user postgres) holds a snapshot" in prepared.says
    assert "replication slot forgotten (physical, inactive) holds a snapshot" in slot.says
    assert "ok" == make(sessions.horizon, inmate).verdict


def test_a_transaction_that_has_written_and_idles(
    inmate: Examination, private_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no snapshot between its statements, but its id holds the horizon."""
    monkeypatch.setattr(sessions, "HORIZON_WARN_SECONDS", 0.0)
    with psycopg.connect(private_server.url(), application_name="a form") as writer:
        writer.execute("CREATE TABLE half_done ()")
        pid, found = writer.info.backend_pid, make(sessions.horizon, inmate)
        writer.rollback()

    assert f"session {pid} (a form, user postgres, idle in transaction) holds" in found.says


# Notifications.


def test_a_pooler_in_transaction_mode(
    database: Examination, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LISTEN succeeds there, and no notification arrives."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    assert "ok" == make(notifications.notifications, database).verdict
    monkeypatch.setattr(notifications, "HEAR_SECONDS", 0.5)
    with bouncer.bouncing(database_url, tmp_path) as url, psycopg.connect(url, autocommit=True) as through:
        findings = {found.name: found for found in examine(patient_of(through, url))}

    assert "warn" == findings["notifications"].verdict
    assert "no notification arrives through this pooler" in findings["notifications"].says
    assert set() == {found.name for found in findings.values() if found.verdict == "skipped"}


def test_a_path_that_others_can_write(
    database: Examination, connection: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    """Behind a pooler our sessions keep the role's path; a direct one sets its own."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(database_url, tmp_path) as url, psycopg.connect(url, autocommit=True) as through:
        pooled = patient_of(through, url)
        before = make(sessions.search_path, pooled)
        connection.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        after = make(sessions.search_path, pooled)
        directly = make(sessions.search_path, database)

    assert ["ok", "warn", "ok"] == [found.verdict for found in (before, after, directly)]
    assert "other roles may create functions in public" in after.says
    assert f"ALTER ROLE {connection.info.user} SET search_path = pg_catalog, pg_temp;" == after.statement


def test_a_full_queue_of_notifications(
    database: Examination, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener with an open transaction reads none. After its end the queue empties."""
    monkeypatch.setattr(notifications, "QUEUE_WARN", 1e-9)
    with closing(psycopg.connect(database_url, autocommit=True, application_name="deaf")) as deaf:
        deaf.execute("LISTEN nothing")
        deaf.execute("BEGIN")
        for _ in range(4):
            database.connection.execute(
                "SELECT pg_notify('nothing', repeat('x', 7900) || clock_timestamp()::text)"
            )
        warned = make(notifications.notification_queue, database)
        monkeypatch.setattr(notifications, "QUEUE_FAIL", 1e-9)
        failed = make(notifications.notification_queue, database)
        follow(database, failed)

    assert ("warn", "fail") == (warned.verdict, failed.verdict)
    assert "The oldest transaction is the one of deaf, pid " in (failed.advice or "")

    def is_well() -> bool:
        database.connection.execute(
            "SELECT pg_notify('nothing', repeat('x', 7900) || clock_timestamp()::text)"
        )
        return make(notifications.notification_queue, database).verdict == "ok"

    eventually(is_well, "the queue is empty again")


# The tables.


def test_a_database_without_our_schema(empty_database_url: str) -> None:
    """The possible checks run. Those that need the schema are skipped, and nothing crashes."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        findings = {found.name: found for found in examine(patient_of(connection, empty_database_url))}

    assert "fail" == findings["schema"].verdict
    assert "run `orchestrator migrate`" in findings["schema"].says
    assert {"copy", "leader", "day leaves", "suspects"} <= {
        f.name for f in findings.values() if f.verdict == "skipped"
    }
    assert "ok" == findings["connections"].verdict == findings["horizon"].verdict


def test_a_schema_that_is_behind(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of both versions can run, but the migration was forgotten."""
    monkeypatch.setattr(migrate, "head", lambda: "9999")

    found = make(tables.schema, database)

    assert ("warn", "the schema is at revision 0002; this version brings 9999") == (found.verdict, found.says)


def test_a_role_that_is_missing(inmate: Examination) -> None:
    """The migrating role may not have been able to create it."""
    inmate.connection.execute("ALTER ROLE orchestrator_reader RENAME TO somebody_else")
    try:
        found = make(tables.roles, inmate)
        with inmate.connection.transaction(force_rollback=True):
            follow(inmate, found)
    finally:
        inmate.connection.execute("ALTER ROLE somebody_else RENAME TO orchestrator_reader")

    assert "warn" == found.verdict
    assert "this server has no role orchestrator_reader" in found.says


def test_a_copy_that_no_operator_has_resumed(database: Examination) -> None:
    """No task runs there."""
    database.connection.execute("SELECT orchestrator.hold_after_restore('a drill')")

    found = make(tables.copy, database)

    assert "fail" == found.verdict
    assert "orchestrator resume --after-restore" in (found.advice or "")


def test_an_index_that_is_missing_or_not_valid(database: Examination) -> None:
    """The statements repair both. Claims do not use the missing one."""
    database.connection.execute("DROP INDEX orchestrator.tasks_live_claim_idx")
    database.connection.execute(
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'orchestrator.tasks_dead_queue_idx'::regclass"
    )

    found, plan = make(tables.indexes, database), make(tables.claim_plan, database)
    follow(database, found)

    assert ("fail", "fail") == (found.verdict, plan.verdict)
    assert "tasks_live_claim_idx is missing" in found.says
    assert "tasks_dead_queue_idx is not valid" in found.says
    assert "tasks_live_claim_idx is not used" in plan.says
    assert ("ok", "ok") == (make(tables.indexes, database).verdict, make(tables.claim_plan, database).verdict)


def test_every_index_is_on_the_list(database: Examination) -> None:
    """After all indexes are dropped, all of ours are reported as missing, with their definitions."""
    defined: LiteralString = (
        "SELECT indexname, replace(indexdef, ' USING btree', '') FROM pg_indexes"
        " WHERE schemaname = 'orchestrator' AND tablename <> 'alembic_version' ORDER BY indexname"
    )
    before = database.connection.execute(defined).fetchall()
    for table, constraint in database.connection.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        " WHERE contype = 'p' AND connamespace = 'orchestrator'::regnamespace"
        " AND conrelid <> 'orchestrator.alembic_version'::regclass"
    ).fetchall():
        database.connection.execute(
            sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}").format(sql.SQL(table), sql.Identifier(constraint))
        )
    for (name,) in database.connection.execute(
        "SELECT indexname FROM pg_indexes WHERE schemaname = 'orchestrator' AND tablename <> 'alembic_version'"
    ).fetchall():
        database.connection.execute(sql.SQL("DROP INDEX orchestrator.{}").format(sql.Identifier(name)))

    missing = {name for name, *_ in database.rows(tables.INDEXES)}
    follow(database, make(tables.indexes, database))

    assert {name for name, _ in before} == missing
    assert before == database.connection.execute(defined).fetchall()


def test_tables_that_are_not_vacuumed(database: Examination) -> None:
    """Turned off for one table, or its own settings lost."""
    database.connection.execute("ALTER TABLE orchestrator.tasks_live SET (autovacuum_enabled = off)")
    off = make(tables.autovacuum, database)
    follow(database, off)
    database.connection.execute("ALTER TABLE orchestrator.tasks_live RESET (autovacuum_vacuum_scale_factor)")
    lost = make(tables.autovacuum, database)
    follow(database, lost)

    assert ("fail", "warn") == (off.verdict, lost.verdict)
    assert "autovacuum is turned off for tasks_live" in off.says
    assert "ok" == make(tables.autovacuum, database).verdict


def test_a_server_that_does_not_vacuum(inmate: Examination) -> None:
    """The statements turn it on again."""
    for name in ("autovacuum", "track_counts"):
        inmate.connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
        inmate.connection.execute("SELECT pg_reload_conf()")
        eventually(lambda: make(tables.autovacuum, inmate).verdict == "fail", "the server has heard")
        found = make(tables.autovacuum, inmate)
        assert f"{name} is off" in found.says
        for statement in (found.statement or "").split("; "):
            inmate.connection.execute(statement.encode())
        eventually(lambda: make(tables.autovacuum, inmate).verdict == "ok", "it is on again")


def test_many_dead_rows(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until a vacuum removes them."""
    monkeypatch.setattr(tables, "DEAD_ROWS_WARN", 500)
    database.connection.execute("ALTER TABLE orchestrator.tasks_live SET (autovacuum_enabled = off)")
    database.connection.execute(FILL, [1000])
    database.connection.execute("DELETE FROM orchestrator.tasks_live")
    database.connection.execute("SELECT pg_stat_force_next_flush()")

    found = make(tables.dead_rows, database)
    follow(database, found)

    assert "warn" == found.verdict
    assert "tasks_live has 1,000" in found.says
    assert "ok" == make(tables.dead_rows, database).verdict


def test_an_index_that_is_mostly_empty(database: Examination, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a backlog; rebuilt, it is small."""
    monkeypatch.setattr(tables, "BLOAT_BYTES_MIN", 100_000)
    database.connection.execute(FILL, [5000])
    database.connection.execute("DELETE FROM orchestrator.tasks_live")
    database.connection.execute("VACUUM orchestrator.tasks_live")

    found = make(tables.index_bloat, database)
    follow(database, found)

    assert "warn" == found.verdict
    assert "tasks_live_claim_idx" in found.says
    assert "ok" == make(tables.index_bloat, database).verdict


def test_day_leaves_run_out(database: Examination) -> None:
    """First those of the next days, then today's."""

    def drop(first: int) -> None:
        leaves = database.connection.execute("SELECT leaf FROM orchestrator.day_leaves").fetchall()
        for (leaf,) in leaves:
            if leaf >= f"tasks_done_{datetime.now(UTC) + timedelta(days=first):%Y%m%d}":
                database.connection.execute(
                    sql.SQL("DROP TABLE orchestrator.{}").format(sql.Identifier(leaf))
                )

    drop(2)
    few = make(tables.day_leaves, database)
    drop(0)
    none = make(tables.day_leaves, database)
    follow(database, none)

    assert ("warn", "fail") == (few.verdict, none.verdict)
    assert "warn" == make(tables.day_leaves, database).verdict


# The workers.


def test_no_worker_lives(database: Examination) -> None:
    """It is worse if tasks wait."""
    idle, nobody = make(workers.workers, database), make(workers.leader, database)
    put(database.connection)

    assert ("warn", "warn", "fail") == (idle.verdict, nobody.verdict, make(workers.workers, database).verdict)


def test_there_is_no_leader(database: Examination) -> None:
    """Although there are workers, for longer than an election takes."""
    hired(database.connection)
    started = make(workers.leader, database)
    database.connection.execute(
        "UPDATE orchestrator.workers SET started_at = started_at - interval '1 minute'"
    )
    late = make(workers.leader, database)
    hired(database.connection, leads=True, host="app-2")

    assert ("ok", "fail") == (started.verdict, late.verdict)
    assert "there is no leader, although workers live (1)" in late.says
    assert ("ok", "app-2, pid 4711 leads") == (
        make(workers.leader, database).verdict,
        make(workers.leader, database).says,
    )


def test_a_leader_that_was_killed_does_not_lead(database: Examination) -> None:
    """Both checks use its beacon, although its term lasts for some seconds."""
    darkened(database.connection, hired(database.connection, leads=True))

    assert "there is no leader, because no worker lives" == make(workers.leader, database).says
    assert "warn" == make(workers.workers, database).verdict


def test_workers_of_several_versions(database: Examination) -> None:
    """During a deployment that is normal, and the command may have yet another version."""
    assert "ok" == make(workers.worker_versions, database).verdict
    hired(database.connection, version="0.1", host="app-1")
    other = make(workers.worker_versions, database)
    hired(database.connection, version=__version__, host="app-2")

    found = make(workers.worker_versions, database)

    assert ("warn", "warn") == (other.verdict, found.verdict)
    assert f"the workers have version 0.1, and this command has {__version__}" == other.says
    assert "0.1 (app-1 pid 4711)" in found.says


def test_a_blocked_event_loop(database: Examination) -> None:
    """Of a live worker, by its last beat; and of one that was declared dead because of it, for an hour."""
    hired(database.connection, host="app-1")
    assert "ok" == make(workers.event_loops, database).verdict
    for host, state, blocked in (
        ("app-2", "running", "35 s"),
        ("app-3", "dead", "9 min"),
        ("app-4", "stopped", "9 s"),
    ):
        hired(database.connection, host=host)
        database.connection.execute(
            "UPDATE orchestrator.workers SET state = %s, blocked_at = beat_at - %s::interval WHERE host = %s",
            [state, blocked, host],
        )

    found = make(workers.event_loops, database)

    assert "warn" == found.verdict
    assert (
        "the event loop of a worker is blocked: app-2 pid 4711 for 35 s; "
        "declared dead in the last hour with a blocked event loop: app-3 pid 4711"
    ) == found.says


# What waits.


def test_a_queue_that_no_worker_serves(database: Examination) -> None:
    """Among those with ready tasks; a paused queue is not reported here."""
    hired(database.connection, "default")
    for queue in ("default", "mial", "held"):
        put(database.connection, queue=queue)
    database.connection.execute("SELECT orchestrator.pause_queue('held')")

    found = make(queues.unserved_queues, database)

    assert "fail" == found.verdict
    assert found.says.endswith("no live worker serves their queues: mial")


def test_a_pause_that_was_forgotten(database: Examination) -> None:
    """The role, the duration, the reason; a name is quoted for SQL."""
    put(database.connection, queue="o'mail")
    database.connection.execute("SELECT orchestrator.pause_queue('o''mail', 'provider maintenance')")
    database.connection.execute("UPDATE orchestrator.queues SET state_since = state_since - interval '26 h'")

    found = make(queues.paused_queues, database)
    follow(database, found)

    assert "warn" == found.verdict
    assert "1 paused with ready tasks: o'mail, by postgres for 26.0 h (provider maintenance)" == found.says
    assert "ok" == make(queues.paused_queues, database).verdict


def test_a_type_that_workers_do_not_know(database: Examination) -> None:
    """A retry, or a task that is due in an hour, is not reported."""
    soon = datetime.now(UTC) + timedelta(minutes=4)
    for error in ({"class": "UnknownType", "put_back": 3}, {"class": "ValueError"}):
        put(database.connection, "scheduled", type="ma'il", run_at=soon, error=Jsonb(error))

    found = make(queues.unknown_types, database)
    follow(database, found)

    assert "warn" == found.verdict
    assert "ma'il (1 in queue default)" in found.says


@pytest.mark.parametrize("state", ["pending", "dead_letter"])
def test_a_task_that_kills_workers(database: Examination, state: str) -> None:
    """Before it has killed the third one, and a day after."""
    task_id = put(database.connection, state, losses=5 if state == "dead_letter" else 2, error=LOST)
    for attempt in (1, 2):
        database.connection.execute(
            "INSERT INTO orchestrator.attempts (task_id, attempt, outcome, queue, type)"
            " VALUES (%s, %s, 'lost', 'default', 'mail')",
            [task_id, attempt],
        )

    found = make(queues.suspects, database)
    follow(database, found)

    assert "warn" == found.verdict
    assert f"task {task_id} (mail): " in found.says
    assert ("is a dead letter" in found.says) == (state == "dead_letter")


# What cannot be looked at, and what must not happen.


@pytest.mark.parametrize("role", ["operator", "reader", "worker", "producer", "public"])
def test_a_role_without_the_right_gets_a_message(
    database: Examination, administrator: psycopg.Connection, database_url: str, role: str
) -> None:
    """A check that the role cannot make is skipped with the reason, and the rest is made."""
    with logins(administrator, database_url) as log_in:
        person = log_in(role)
        findings = {found.name: found for found in examine(patient_of(person, make_conninfo(database_url)))}

    assert len(CHECKS) == len(findings)
    assert "ok" == findings["server version"].verdict == findings["notifications"].verdict
    skipped = {name for name, found in findings.items() if found.verdict == "skipped"}
    assert "horizon" in skipped
    assert ("claim plan" in skipped) == (role != "worker")
    assert ("day leaves" in skipped) == (role in ("producer", "public"))
    assert all(findings[name].says for name in skipped)


def test_nothing_is_changed(database: Examination) -> None:
    """Neither a row nor a setting of the session."""
    put(database.connection)
    settings: LiteralString = (
        "SELECT name, setting FROM pg_settings WHERE name NOT IN ('transaction_isolation') ORDER BY 1"
    )
    before = (
        database.connection.execute(settings).fetchall(),
        database.connection.execute("TABLE orchestrator.tasks").fetchall(),
    )

    examine(database)

    assert before == (
        database.connection.execute(settings).fetchall(),
        database.connection.execute("TABLE orchestrator.tasks").fetchall(),
    )


def test_a_check_that_takes_too_long_is_skipped(database: Examination, database_url: str) -> None:
    """For example because another session has locked a table; the next one is made."""
    with psycopg.connect(database_url) as locker:
        locker.execute("LOCK TABLE orchestrator.workers IN ACCESS EXCLUSIVE MODE")

        found = make(workers.workers, database)

    assert "skipped" == found.verdict
    assert "the server took too long: canceling statement due to lock timeout" == found.says
    assert "ok" == make(server.server_version, database).verdict


def test_a_server_that_goes_away_is_no_finding(
    database: Examination, administrator: psycopg.Connection
) -> None:
    """The command reports that the connection is lost."""
    administrator.execute("SELECT pg_terminate_backend(%s)", [database.connection.info.backend_pid])

    with pytest.raises(psycopg.OperationalError):
        make(server.takes_writes, database)
