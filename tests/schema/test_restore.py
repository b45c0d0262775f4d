"""Any copy of the database: no task runs in it until an operator resumes it, and then all do."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import getrandbits
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

import orchestrator
from orchestrator.errors import DatabaseRestored
from orchestrator.schema import compatibility, migrate
from tests import dumps, servers
from tests.races.statements import everywhere
from tests.schema.rows import FUTURE, one, put, read, sleeping_worker

ROOT = Path(orchestrator.__file__).parent
CLAIM = (ROOT / "claim" / "batch.sql").read_bytes()
HELD = "SELECT count(*) FROM orchestrator.tasks_live WHERE lease IS NOT NULL"
Way = Callable[["Copier"], str]


class Copier:
    """The original, and databases for its copies. The test drops all of them."""

    def __init__(self, administrator: psycopg.Connection, url: str, folder: Path) -> None:
        self.administrator = administrator
        self.original = url
        self.folder = folder
        self.names: list[str] = []

    def name(self) -> str:
        self.names.append(f"orchestrator_copy_{uuid4().hex}")
        return self.names[-1]

    def empty(self) -> str:
        """Make an empty database."""
        name = self.name()
        self.administrator.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name))
        )
        return servers.url_of(self.original, name)

    def dump(self, *options: str) -> Path:
        return dumps.dump(self.original, self.folder / "dump", *options)

    def close(self) -> None:
        for name in self.names:
            self.administrator.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def elsewhere(copier: Copier) -> str:
    """pg_restore into an empty database."""
    file, there = copier.dump("--format=custom"), copier.empty()
    dumps.restore(there, file)
    return there


def in_one_transaction(copier: Copier) -> str:
    """The same in one transaction."""
    file, there = copier.dump("--format=custom"), copier.empty()
    dumps.restore(there, file, "--single-transaction")
    return there


def as_plain_sql(copier: Copier) -> str:
    """psql reads a dump of INSERTs."""
    file, there = copier.dump("--inserts"), copier.empty()
    dumps.play(there, file)
    return there


def over_itself(copier: Copier) -> str:
    """pg_restore --clean into the original database."""
    file = copier.dump("--format=custom")
    dumps.restore(copier.original, file, "--clean", "--if-exists")
    return copier.original


def data_alone(copier: Copier) -> str:
    """Only the data, into tables that a migration has just made: their own rows conflict, and psql goes on."""
    file, there = copier.dump("--data-only"), copier.empty()
    migrate.upgrade(there)
    assert 'violates unique constraint "settings_pkey"' in dumps.play(there, file)
    return there


def the_tasks_back_in_place(copier: Copier) -> str:
    """Only the data, into the emptied tables of the original database."""
    file = copier.dump("--data-only", "--format=custom")
    with psycopg.connect(copier.original, autocommit=True) as connection:
        tables = "tasks, types, queues, workers, attempts, audit, idempotency_keys, settings, alembic_version"
        connection.execute(f"TRUNCATE orchestrator.{tables.replace(', ', ', orchestrator.')}".encode())
    dumps.restore(copier.original, file)
    return copier.original


def as_template(copier: Copier) -> str:
    """CREATE DATABASE … TEMPLATE: a branch, with the oids of all tables."""
    return dumps.clone(copier.administrator, copier.original, copier.name())


WAYS = [
    elsewhere,
    in_one_transaction,
    as_plain_sql,
    over_itself,
    data_alone,
    the_tasks_back_in_place,
    as_template,
]


@pytest.fixture
def copier(administrator: psycopg.Connection, database_url: str, tmp_path: Path) -> Iterator[Copier]:
    """The original, and the means to copy it."""
    copier = Copier(administrator, database_url, tmp_path)
    yield copier
    copier.close()


def claim(connection: psycopg.Connection, worker_id: UUID) -> list[int]:
    """Claim like a worker. Return the ids."""
    params = {**everywhere(["default"]), "batch_size": 50, "lease": getrandbits(63), "worker_id": worker_id}
    return sorted(row[0] for row in connection.execute(CLAIM, params))


@contextmanager
def at_work(url: str) -> Iterator[tuple[UUID, list[int]]]:
    """Fill the original: one task each pending, claimed, running; a worker that holds the last two, and leads."""
    with psycopg.connect(url, autocommit=True) as connection:
        worker_id = sleeping_worker(connection, "default")
        connection.execute(
            "UPDATE orchestrator.workers SET is_leader = true, term = 7, leader_until = %s", [FUTURE]
        )
        ids = [put(connection), *(put(connection, s, worker_id=worker_id) for s in ("claimed", "running"))]
        put(connection, "completed")
        put(connection, "dead_letter")
    yield worker_id, ids


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_task_runs_in_a_copy_until_an_operator_resumes_it(copier: Copier, way: Way) -> None:
    """Neither for the original's worker nor for a new one. Then all tasks run, with the right attempts."""
    with at_work(copier.original) as (worker_id, (waiting, claimed, running)):
        there = way(copier)
    with psycopg.connect(there, autocommit=True) as connection:
        newcomer = sleeping_worker(connection, "default")

        assert not one(connection, "SELECT orchestrator.at_home()")
        assert [] == claim(connection, newcomer)
        # A template is copied while nobody is in it: its workers are where the URL leads them, with all their leases.
        if way is not as_template:
            assert [] == claim(connection, worker_id)
        with pytest.raises(DatabaseRestored, match="orchestrator resume --after-restore"):
            compatibility.require(connection)

        done = connection.execute("SELECT * FROM orchestrator.resume_after_restore('a test')").fetchone()

        assert (1, 1, 2) == done
        compatibility.require(connection)
        assert [] == connection.execute("TABLE orchestrator.leader").fetchall()
        assert ([], []) == (claim(connection, worker_id), claim(connection, newcomer))
        assert [(0, 0), (0, 0), (1, 0)] == [
            read(connection, task_id, "attempt", "losses") for task_id in (waiting, claimed, running)
        ]
        assert [waiting, claimed, running] == claim(connection, sleeping_worker(connection, "default"))


def test_the_original_goes_on(copier: Copier) -> None:
    """A copy, and changes of the copy, change nothing in the original."""
    with at_work(copier.original) as (worker_id, ids):
        there = elsewhere(copier)
    with psycopg.connect(there, autocommit=True) as copy:
        copy.execute("SELECT orchestrator.resume_after_restore()")

    with psycopg.connect(copier.original, autocommit=True) as connection:
        assert one(connection, "SELECT orchestrator.at_home()")
        assert 2 == one(connection, HELD)
        assert ids[:1] == claim(connection, worker_id)


def test_two_restores_of_the_same_dump_are_distinguished(server_url: str, tmp_path: Path) -> None:
    """In new clusters the same steps give the same oids, but another transaction wrote the row."""
    oids: list[Any] = []
    with servers.temporary_directory() as folder:
        dumped: Path | None = None
        for number in range(3):
            server = servers.Server(dumps.binaries(server_url), folder / str(number))
            try:
                url = server.start().url()
                if dumped is None:
                    migrate.upgrade(url)
                else:
                    dumps.restore(url, dumped, "--no-privileges")
                with psycopg.connect(url, autocommit=True) as connection:
                    oids.append(one(connection, "SELECT here[2:] FROM orchestrator.installation"))
                    assert (number == 0) == one(connection, "SELECT orchestrator.at_home()")
                    connection.execute("SELECT orchestrator.resume_after_restore()")
                    assert one(connection, "SELECT orchestrator.at_home()")
                dumped = dumps.dump(url, tmp_path / f"dump {number}", "--format=custom")
            finally:
                server.close()

    assert oids[1] == oids[2]


@pytest.mark.parametrize("upkeep", ["VACUUM FULL", "VACUUM FREEZE", "CLUSTER", "REINDEX SCHEMA orchestrator"])
def test_a_live_database_stays_at_home(connection: psycopg.Connection, upkeep: str) -> None:
    """Maintenance that rewrites every row makes no copy."""
    connection.execute("ALTER TABLE orchestrator.workers CLUSTER ON workers_pkey")
    worker_id, task_id = sleeping_worker(connection, "default"), put(connection)

    connection.execute(upkeep.encode())

    assert one(connection, "SELECT orchestrator.at_home()")
    assert [task_id] == claim(connection, worker_id)


def test_resuming_at_home_changes_nothing(connection: psycopg.Connection) -> None:
    """The leases of a live installation must not be voided by mistake. A notice says so, each time."""
    worker_id = sleeping_worker(connection, "default")
    task_id = put(connection, "running", worker_id=worker_id)
    notices: list[str | None] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))

    done = [
        connection.execute("SELECT * FROM orchestrator.resume_after_restore()").fetchone() for _ in range(2)
    ]

    assert [(0, 0, 0)] * 2 == done
    assert ["this database is at home: nothing was changed"] * 2 == notices
    assert ("running", 77) == read(connection, task_id, "status", "lease")
    assert "running" == one(connection, "SELECT state FROM orchestrator.workers")
    assert 0 == one(connection, "SELECT count(*) FROM orchestrator.audit")


def test_a_second_resume_voids_no_lease(connection: psycopg.Connection, database_url: str) -> None:
    """Not even in a transaction that began while the tables were not at home."""
    connection.execute("SELECT orchestrator.hold_after_restore()")
    with psycopg.connect(database_url) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert not one(late, "SELECT orchestrator.at_home()")
        connection.execute("SELECT orchestrator.resume_after_restore()")
        put(connection, "running", worker_id=sleeping_worker(connection, "default"))

        with pytest.raises(psycopg.errors.SerializationFailure):
            late.execute("SELECT orchestrator.resume_after_restore()")

    assert 1 == one(connection, HELD)


def test_a_copy_made_file_by_file_can_be_held(connection: psycopg.Connection) -> None:
    """Running workers claim no more, at once, and new ones do not start. A resume ends that."""
    worker_id, task_id = sleeping_worker(connection, "default"), put(connection)

    held = [one(connection, "SELECT orchestrator.hold_after_restore('a snapshot')") for _ in range(2)]

    assert [True, False] == held
    assert [] == claim(connection, worker_id)
    with pytest.raises(DatabaseRestored):
        compatibility.require(connection)
    connection.execute("SELECT orchestrator.resume_after_restore()")
    assert [task_id] == claim(connection, sleeping_worker(connection, "default"))


def test_emptied_tables_are_not_at_home(connection: psycopg.Connection) -> None:
    """Without the row the database cannot know, so an operator must decide."""
    connection.execute("TRUNCATE orchestrator.home")

    with pytest.raises(DatabaseRestored, match="where they were at home is not on record"):
        compatibility.require(connection)
    connection.execute("SELECT orchestrator.resume_after_restore()")
    compatibility.require(connection)


def test_attempts_in_the_original_are_on_record(connection: psycopg.Connection) -> None:
    """Each has an attempt with the reason, no loss, and one more execution even after the last attempt. The rest
    stays the same."""
    worker_id = sleeping_worker(connection, "default")
    task_id = put(connection, "running", worker_id=worker_id, attempt=4, losses=2)
    connection.execute("SELECT orchestrator.hold_after_restore()")

    with connection.transaction(), connection.transaction():
        connection.execute("SELECT orchestrator.resume_after_restore('the disk was gone')")

    assert one(connection, "SELECT orchestrator.at_home()")
    assert ("pending", 3, 2, None) == read(connection, task_id, "status", "attempt", "losses", "lease")
    row = connection.execute(
        "SELECT task_id, attempt, outcome, error ->> 'class', lease, worker_id FROM orchestrator.attempts"
    ).fetchone()
    assert (task_id, 4, "lost", "DatabaseRestored", 77, worker_id) == row
    audited = connection.execute(
        "SELECT action, reason, details - 'from' FROM orchestrator.audit ORDER BY id DESC LIMIT 1"
    ).fetchone()
    counts = {"claimed": 0, "running": 1, "workers": 1}
    assert ("resume_after_restore", "the disk was gone", counts) == audited
