"""Our statements call no foreign object of a schema in search_path, in our sessions and in a user's session.

In these tests `public` comes first in the path of the database, of the login and of the user's own session. It contains
a trap for each function, operator, type and catalog table that our SQL names (traps.py).
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, LiteralString
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from orchestrator import Cancel, Context, Discard, Orchestrator, Retry, Snooze, events
from orchestrator.postgres import connect
from orchestrator.schema import migrate
from tests import bouncer
from tests.cli import in_process
from tests.patience import PATIENCE_SECONDS
from tests.producers.every_holder import ALL_KINDS, Holding, enqueue, enqueue_many
from tests.producers.every_holder import run as run_kind
from tests.schema.logins import logins
from tests.schema.role_statements import KEEPS_HOUSE, ROOT
from tests.schema.rows import put
from tests.security import traps
from tests.servers import url_of
from tests.worker.running import (
    AT_ONCE,
    attempts,
    recorded,
    run_until_empty,
    status,
    task,
    until,
    value,
    working,
)

SAFE = "-c search_path=pg_catalog,pg_temp"
PLANTED, READY = "orchestrator_test_planted", "orchestrator_test_ready"
EXPIRED: tuple[LiteralString, ...] = (
    "INSERT INTO orchestrator.audit (action, at) VALUES ('pause', '2001-01-01')",
    "INSERT INTO orchestrator.idempotency_keys VALUES ('mail', 'k', 1, '2001-01-01')",
    "INSERT INTO orchestrator.statistics (minute, queue, type) VALUES ('2001-01-01', 'q', 't')",
)


@pytest.fixture(scope="module")
def templates(
    administrator: psycopg.Connection, server_url: str, template_database: str
) -> Iterator[dict[str, str | None]]:
    """Two template databases with traps: one without our schema, and one migrated."""
    run_id = uuid4().hex[:8]
    names = {kind: f"{kind}_{run_id}" for kind in ("orchestrator_test_reference", PLANTED, READY)}
    reference, planted, ready = names.values()
    try:
        create(administrator, reference, like=template_database)
        create(administrator, planted, like="template0")
        with looking(server_url, reference) as untouched, looking(server_url, planted) as connection:
            traps.plant(connection, traps.plan(untouched))
        create(administrator, ready, like=planted)
        migrate.upgrade(url_of(server_url, ready))
        yield {PLANTED: planted, READY: ready}
    finally:
        for name in names.values():
            administrator.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )


@contextmanager
def trapped(
    administrator: psycopg.Connection, server_url: str, template: str, *, hostile: bool = True
) -> Iterator[str]:
    """Clone a database and yield its URL; `public` comes first in its path if `hostile`."""
    name = f"orchestrator_test_{uuid4().hex}"
    create(administrator, name, like=template)
    try:
        if template.startswith(READY):
            with looking(server_url, name) as look:
                look.execute("SELECT orchestrator.set_home()")
        if hostile:
            administrator.execute(traps.path_of("DATABASE", name))
        yield url_of(server_url, name)
    finally:
        administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def create(administrator: psycopg.Connection, name: str, *, like: str) -> None:
    administrator.execute(
        sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy").format(
            sql.Identifier(name), sql.Identifier(like)
        )
    )


@contextmanager
def looking(server_url: str, name: str) -> Iterator[psycopg.Connection]:
    """The test's own session, whose path is safe from the traps."""
    with psycopg.connect(make_conninfo(server_url, dbname=name, options=SAFE), autocommit=True) as connection:
        yield connection


@pytest.fixture
def url(administrator: psycopg.Connection, server_url: str, templates: dict[str, str]) -> Iterator[str]:
    """A migrated database with traps. `public` comes first in its path."""
    with trapped(administrator, server_url, templates[READY]) as url:
        yield url


@pytest.fixture
def look(url: str) -> Iterator[psycopg.Connection]:
    """A session on this database, whose path is safe from the traps."""
    with psycopg.connect(make_conninfo(url, options=SAFE), autocommit=True) as connection:
        yield connection


@pytest.fixture
def app(url: str) -> Iterator[Orchestrator]:
    """An application on this database."""
    application = Orchestrator(
        url, heartbeat_seconds=0.2, dead_after_seconds=1.0, term_seconds=1.0, poll_seconds=0.2
    )
    yield application
    application.close()


def test_the_traps_are_set(url: str, look: psycopg.Connection) -> None:
    """An unsafe session calls them: functions with exact types, operators, types, and tables of the catalog."""
    with psycopg.connect(url, autocommit=True) as unsafe:
        for statement in (
            "SELECT format('%s', 'a'::pg_catalog.text)",
            "SELECT cardinality('{1}'::bigint[])",
            "SELECT unnest('{a}'::pg_catalog.text[])",
            "SELECT 1::bigint = 2::bigint",
            "SELECT '{}'::jsonb",
            "SELECT FROM pg_locks",
        ):
            with pytest.raises(psycopg.errors.RaiseException, match="TRAP"):
                unsafe.execute(statement.encode())

    assert ["=", "cardinality", "format", "jsonb", "pg_locks", "unnest"] == traps.sprung(look)
    assert 3000 < value(look, "SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace")


def test_a_migration_calls_no_foreign_object(
    administrator: psycopg.Connection, server_url: str, templates: dict[str, str]
) -> None:
    """Upgrade, second upgrade, downgrade and manual script are safe. No table depends on a foreign object."""
    with trapped(administrator, server_url, templates[PLANTED]) as url:
        migrate.upgrade(url)
        migrate.upgrade(url)
        at = migrate.state(url)
        with psycopg.connect(make_conninfo(url, options=SAFE), autocommit=True) as look:
            built_in = look.execute(
                "SELECT DISTINCT d.classid::regclass::text, d.objid FROM pg_depend AS d"
                " JOIN pg_depend AS o ON o.classid = d.classid AND o.objid = d.objid"
                " WHERE d.refobjid IN ("
                "  SELECT p.oid FROM pg_proc AS p WHERE p.pronamespace = 'public'::regnamespace"
                "  UNION SELECT p.oid FROM pg_operator AS p WHERE p.oprnamespace = 'public'::regnamespace"
                "  UNION SELECT t.oid FROM pg_type AS t WHERE t.typnamespace = 'public'::regnamespace)"
                " AND o.refclassid = 'pg_class'::regclass"
                " AND o.refobjid IN ("
                "  SELECT c.oid FROM pg_class AS c WHERE c.relnamespace = 'orchestrator'::regnamespace)"
            ).fetchall()
            sprung = traps.sprung(look)
        migrate.downgrade(url, to="base")
        with psycopg.connect(make_conninfo(url, options=SAFE), autocommit=True) as look:
            sprung += traps.sprung(look)
    with (
        trapped(administrator, server_url, templates[PLANTED]) as url,
        psycopg.connect(url, autocommit=True) as manually,
    ):
        manually.execute(migrate.script().encode())
        sprung += traps.sprung(manually)

    assert at[0] == at[1] is not None
    assert [] == built_in
    assert [] == sprung


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_an_enqueue_in_a_users_transaction_calls_no_foreign_object(
    administrator: psycopg.Connection, server_url: str, templates: dict[str, str], kind: str
) -> None:
    """The user's path is hostile: enqueue one task, one with a key and a delay, and sets of equal and unequal tasks."""

    async def act(producer: Orchestrator, holding: Holding) -> None:
        await holding.execute("SET search_path = public, pg_catalog")
        mail = producer.task(name="mail")(lambda number=0: None)
        held = mail.using(holding.held)
        await enqueue(kind, held, number=1)
        more = {"delay": 10, "tags": ["t"], "metadata": {"m": 1}, "queue": "q", "timeout": 9}
        await enqueue(kind, mail.using(holding.held, key="k", **more))
        await enqueue_many(kind, held, [{"number": n} for n in range(3)])
        await enqueue_many(kind, held, [mail.using(key=f"k{n}").call(number=n) for n in range(3)])
        await holding.commit()

    async def opened(producer: Orchestrator, url: str) -> None:
        async with ALL_KINDS[kind](url) as holding:
            await act(producer, holding)

    # Drivers and frameworks run their own statements when they connect. So the path becomes hostile after that.
    with trapped(administrator, server_url, templates[READY], hostile=False) as url:
        producer = Orchestrator(url)
        run_kind(kind, opened(producer, url))
        producer.close()
        with psycopg.connect(make_conninfo(url, options=SAFE), autocommit=True) as look:
            tasks = value(look, "SELECT count(*) FROM orchestrator.tasks")
            sprung = traps.sprung(look)

    assert [] == sprung
    assert 8 == tasks


def test_the_functions_and_views_call_no_foreign_object(
    administrator: psycopg.Connection, url: str, look: psycopg.Connection
) -> None:
    """A login whose own path begins with `public` does the work of every role and reads each view."""
    finished = put(look, "completed")
    waiting = put(look)
    statements = [
        "SELECT orchestrator.enqueue('mail', '{}')",
        "SELECT orchestrator.enqueue('mail', '{}', key => 'k', delay => '1 h', tags => '{a}', metadata => '{}')",
        'SELECT orchestrator.enqueue_many(\'[{"type": "mail"}, {"type": "mail", "key": "l"}]\')',
        'SELECT orchestrator.enqueue_alike(\'[{}, {}]\', \'{"type": "mail", "priority": 3}\')',
        "INSERT INTO orchestrator.tasks (type, payload, idempotency_key) VALUES ('mail', '{}', 'm') RETURNING id",
        *(f"TABLE orchestrator.{view.stem}" for view in sorted((ROOT / "schema" / "views").glob("*.sql"))),
        f"SELECT orchestrator.explain({waiting})",
        f"SELECT orchestrator.explain({finished})",
        "SELECT orchestrator.explain(999)",
        f"SELECT orchestrator.cancel({waiting}, 'r')",
        f"SELECT orchestrator.requeue({waiting}, 'r')",
        "SELECT orchestrator.requeue_where(status => 'cancelled')",
        "UPDATE orchestrator.tasks SET priority = 75 WHERE finished_at IS NULL",
        "SELECT orchestrator.pause_queue('default', 'r')",
        "SELECT orchestrator.drain_queue('default')",
        "SELECT orchestrator.resume_queue('default')",
        "SELECT orchestrator.set_retention('default', '1 day')",
        "SELECT orchestrator.set_defaults('default', 3)",
        "SELECT orchestrator.queue_metrics('default', '1 h')",
        "SELECT orchestrator.queue_counts(true)",
        "SELECT orchestrator.failure_groups(100)",
        "SELECT orchestrator.bucket_begins(7)",
        "SELECT orchestrator.hold_after_restore('r')",
        "SELECT orchestrator.resume_after_restore('r')",
        *KEEPS_HOUSE,
        "DELETE FROM orchestrator.tasks",
    ]
    with logins(administrator, url) as log_in:
        for role in ("producer", "worker", "operator"):
            name = log_in(role).info.user
        administrator.execute(traps.path_of("ROLE", name))
        look.execute("INSERT INTO orchestrator.queues (name) VALUES ('default') ON CONFLICT DO NOTHING")
        session = log_in("public")
        path = value(session, "SHOW search_path")
        for statement in statements:
            session.execute(statement.encode())

    assert "public, pg_catalog" == path
    assert [] == traps.sprung(look)


async def test_a_worker_calls_no_foreign_object(
    app: Orchestrator, look: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker runs tasks to every possible end, leads, recovers orphans, ends timeouts and deletes expired rows."""
    monkeypatch.setattr("orchestrator.maintain.duties.TIMEOUTS_DELAY_SECONDS", 0.0)
    monkeypatch.setattr("orchestrator.maintain.duties.TIMEOUTS_EVERY_SECONDS", 0.2)
    gate, snoozed = asyncio.Event(), list[int]()

    @app.task(name="end", backoff=AT_ONCE, max_attempts=2)
    async def end(how: str, context: Context) -> Any:
        context.progress(how)
        if context.attempt == 1:
            match how:
                case "retry":
                    raise Retry("0s")
                case "snooze" if not snoozed:
                    snoozed.append(context.id)
                    raise Snooze("0s")
                case "own transaction":
                    async with context.transaction() as connection:
                        await connection.execute("SELECT 1")
                        context.result(1)
                    return None
        match how:
            case "fail":
                raise ValueError(how)
            case "discard":
                raise Discard(how)
            case "cancel":
                raise Cancel(how)
            case "wait":
                await gate.wait()
        return {"how": how}

    @app.task(name="in a thread")
    def in_thread(context: Context) -> None:
        with context.transaction() as connection:
            connection.execute("SELECT 1")

    @app.task(name="too long", timeout=0.05, max_attempts=1)
    async def too_long() -> None:
        await asyncio.Event().wait()

    lost, late, stopped = (
        left_behind(look),
        end.using(delay=0.3).enqueue(how="succeed"),
        end.enqueue(how="wait"),
    )
    hows = ("succeed", "fail", "retry", "snooze", "discard", "cancel", "own transaction")
    ids = [end.enqueue(how=how).id for how in hows]
    ids += [in_thread.enqueue().id, too_long.enqueue().id, late.id, *lost]

    with recorded() as seen:
        async with working(app):
            await until(lambda: all(task(look, n).finished_at for n in ids), "they have ended")
            await until(lambda: status(look, stopped.id) == "running", "one runs")
            await stopped.acancel("enough")
            await until(lambda: tidied(seen), "it has tidied up")
            await until(lambda: value(look, "SELECT count(*) FROM orchestrator.samples"), "it has sampled")
            hung = hang(look)
            await until(
                lambda: status(look, hung) == "dead_letter", "it has ended what its worker did not end"
            )
            await end.aenqueue(how="succeed")
            assert {"how": "succeed"} == await late.aresult(timeout=PATIENCE_SECONDS)
        await app.aclose()

    assert [] == traps.sprung(look)
    assert [] == [e for e in seen if isinstance(e, events.DutyFailed | events.ConnectionLost)]
    ended = (
        "completed",
        "dead_letter",
        "completed",
        "completed",
        "dead_letter",
        "cancelled",
        "completed",
        "completed",
    )
    assert list(ended) == [status(look, n) for n in ids[: len(ended)]]
    # A trap with another kind or result would refuse an outcome, and the attempt would be repeated: none was.
    assert [[], []] == [attempts(look, n) for n in ids[len(hows) - 1 : len(ended)]]


def left_behind(look: psycopg.Connection) -> list[int]:
    """Insert expired rows, a dead worker, and two tasks that it held; return their ids."""
    gone = uuid4()
    look.execute(
        "INSERT INTO orchestrator.workers (id, host, pid, version, queues, capacity, beat_at, dead_after)"
        " VALUES (%s, 'gone', 1, '0', '{default}', 1, '2001-01-01', interval '0.1 s')",
        [gone],
    )
    for statement in EXPIRED:
        look.execute(statement)
    payload = Jsonb({"how": "succeed"})
    return [put(look, kind, type="end", worker_id=gone, payload=payload) for kind in ("running", "claimed")]


def tidied(seen: list[events.Event]) -> bool:
    """Return whether the leader has deleted the expired statistics, the last kind of row that it deletes."""
    return any(isinstance(event, events.RowsExpired) and event.kind == "statistics" for event in seen)


def hang(look: psycopg.Connection) -> int:
    """Insert a task that the worker holds and whose timeout is long past."""
    return put(
        look, "running", type="end", max_attempts=1, timeout=timedelta(seconds=1), started_at="2001-01-01",
        worker_id=value(look, "SELECT id FROM orchestrator.workers WHERE state = 'running'"), claimed_at="2001-01-01",
    )  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        "status", "doctor", "queues list", "queues list --json", "queues pause default", "queues resume default",
        "queues set default --priority 3", "queues drain default", "tasks list", "tasks list --status pending",
        "tasks show {id}", "explain {id}", "explain 999", "failures", "workers list", "leader", "version", "migrate",
        "migrate --check", "enqueue mail {{}}", "tasks cancel {id} --yes", "tasks requeue {id} --yes",
        "tasks requeue --type mail --yes", "tasks priority {id} 3 --yes", "tasks export --type mail",
        "tasks delete {id} --yes",
        "resume --after-restore --yes",
    ],
)  # fmt: skip
def test_no_command_calls_a_foreign_object(url: str, look: psycopg.Connection, words: str) -> None:
    """The commands run on the database with the hostile path."""
    task_id = put(look)

    ran = in_process.run(*words.format(id=task_id).split(), url=url)

    assert [] == traps.sprung(look)
    assert "TRAP" not in ran.output
    assert ran.code in (0, 1), ran.output


def test_a_handlers_own_transaction_keeps_the_path_of_its_user(
    administrator: psycopg.Connection, server_url: str, templates: dict[str, str]
) -> None:
    """The handler finds its tables without a schema name, as the rest of the application does."""
    with trapped(administrator, server_url, templates[READY], hostile=False) as url:
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("CREATE TABLE public.ledger (path text)")
        app = Orchestrator(url)
        paths = []

        @app.task(name="book")
        def book(context: Context) -> None:
            with context.transaction() as connection:
                paths.append(value(connection, "SHOW search_path"))
                connection.execute("INSERT INTO ledger VALUES ('mine')")

        book.enqueue()
        run_until_empty(app)
        app.close()

    assert ['"$user", public'] == paths


def test_a_safe_path_stays_out_of_a_pooler(url: str, tmp_path: Path) -> None:
    """In transaction mode a setting would stay for the next client, so we set none. An enqueue is safe without it."""
    if bouncer.PROGRAM is None:
        pytest.skip("pgbouncer is not installed; Debian: apt-get install pgbouncer")
    with bouncer.bouncing(url, tmp_path, pool_size=1) as through:
        app = Orchestrator(through)
        mail = app.task(name="mail")(lambda: None)
        handle = mail.enqueue()
        mail.using(key="k").enqueue()
        mail.enqueue_many([{}, {}])
        found = handle.status()
        app.close()
        with connect.open_sync(connect.conninfo(through)) as ours, psycopg.connect(through) as another:
            assert ours.info.transaction_status is TransactionStatus.IDLE
            path = value(another, "SHOW search_path")

    assert "pending" == found
    assert "public, pg_catalog" == path
