"""Migrating: from nothing, again, back, ten at the same time, with few rights, beside another Alembic."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from orchestrator import events
from orchestrator.errors import SchemaError
from orchestrator.schema import migrate
from tests import servers
from tests.patience import PATIENCE_SECONDS
from tests.schema.catalog import everything
from tests.schema.rows import one

OURS = "SELECT relname FROM pg_class WHERE relnamespace = 'orchestrator'::regnamespace"
REVISION = "SELECT version_num FROM orchestrator.alembic_version"


@pytest.fixture
def empty(empty_database_url: str) -> Iterator[psycopg.Connection]:
    """A session on the empty database."""
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def newcomer(administrator: psycopg.Connection) -> Iterator[str]:
    """A role that may only log in; made before the database in which it will own objects."""
    name = f"newcomer_{uuid4().hex[:12]}"
    administrator.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield name
    administrator.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_an_empty_database_is_migrated_and_again_is_nothing(
    empty: psycopg.Connection, empty_database_url: str
) -> None:
    """The second time finds the newest revision and changes nothing."""
    assert (None, migrate.head()) == migrate.state(empty_database_url)
    migrate.upgrade(empty_database_url)
    before = everything(empty)

    migrate.upgrade(empty_database_url)

    assert before == everything(empty)
    assert (migrate.head(), migrate.head()) == migrate.state(empty_database_url)


def test_a_downgrade_takes_everything_away_and_an_upgrade_brings_it_back(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Schema and version table, too. Objects that depend on our tables are named, and stop it."""
    before = everything(connection)
    connection.execute("SELECT orchestrator.enqueue('mail', key => 'k')")
    connection.execute("CREATE VIEW public.mine AS SELECT id FROM orchestrator.tasks")
    with pytest.raises(
        SchemaError, match=r"\(view public\.mine depends on .*\); drop them first\. Nothing was changed"
    ):
        migrate.downgrade(database_url, to="base")
    connection.execute("DROP VIEW public.mine")

    migrate.downgrade(database_url, to="base")

    assert None is one(connection, "SELECT to_regnamespace('orchestrator')")
    assert (None, migrate.head()) == migrate.state(database_url)
    migrate.move(database_url, to="head")
    assert before == everything(connection)


def test_a_downgrade_names_a_function_that_it_cannot_tell_from_ours(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Somebody made another function with the name of one of ours, in our schema."""
    connection.execute("CREATE FUNCTION orchestrator.clock(n int) RETURNS int LANGUAGE sql AS 'SELECT n'")
    before = everything(connection)

    with pytest.raises(
        SchemaError, match=r"another function with the name of one of ours .*clock.*drop it first"
    ):
        migrate.downgrade(database_url, to="base")

    assert before == everything(connection)


def test_a_downgrade_does_not_wait_long_for_its_locks(
    connection: psycopg.Connection, database_url: str
) -> None:
    """Otherwise all statements of workers and producers would wait behind it, for as long as another's transaction."""
    before = everything(connection)
    with psycopg.connect(database_url) as long:
        long.execute("TABLE orchestrator.tasks")
        with pytest.raises(SchemaError, match=r"nothing was changed.*run it again"):
            migrate.downgrade(database_url, to="base")

    assert before == everything(connection)


@pytest.fixture
def lonely(server_url: str) -> Iterator[str]:
    """A migrated database on a server of its own, where no other database uses the roles."""
    with servers.shared_server(os.environ.get("ORCHESTRATOR_TEST_SERVER", "embedded")) as url:
        migrate.upgrade(url)
        yield url


def notices_of(act: Callable[[], None]) -> list[str]:
    """Return the notices of the database during a call."""
    reported: list[events.Event] = []
    stop = events.subscribe(reported.append)
    act()
    stop()
    return [event.message for event in reported if isinstance(event, events.DatabaseNotice)]


def test_a_downgrade_drops_roles_that_no_other_database_uses(lonely: str) -> None:
    """A role with a member, or one that another database uses, stays, and a notice says so."""
    roles = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'orchestrator%' ORDER BY 1"
    with psycopg.connect(lonely, autocommit=True) as connection:
        connection.execute("CREATE ROLE shop LOGIN IN ROLE orchestrator_producer")
        connection.execute("CREATE DATABASE other")
        other = servers.url_of(lonely, "other")
        migrate.upgrade(other)

        shared = notices_of(lambda: migrate.downgrade(lonely, to="base"))
        alone = notices_of(lambda: migrate.downgrade(other, to="base"))

        assert 4 == len(shared)
        assert "the role orchestrator_producer is kept: shop may act as it" == shared[0] == alone[0]
        assert shared[1].startswith(
            'the role orchestrator_worker is kept: role "orchestrator_worker" cannot be dropped'
        )
        assert 1 == len(alone)
        assert [("orchestrator_producer",)] == connection.execute(roles).fetchall()


def test_a_downgrade_keeps_a_schema_with_things_of_others_in_it(
    connection: psycopg.Connection, database_url: str
) -> None:
    """And says so."""
    connection.execute("CREATE TABLE orchestrator.theirs ()")

    reported = notices_of(lambda: migrate.downgrade(database_url, to="base"))

    assert (
        "the schema orchestrator is kept: cannot drop schema orchestrator because other objects depend on it"
        == reported[0]
    )
    assert ["theirs"] == [name for (name,) in connection.execute(OURS)]
    migrate.upgrade(database_url)


def test_a_downgrade_keeps_a_schema_that_the_role_could_not_make(
    newcomer: str, empty: psycopg.Connection, empty_database_url: str
) -> None:
    """Another role made it, and it is needed for the next migration."""
    empty.execute("CREATE SCHEMA orchestrator")
    empty.execute(sql.SQL("ALTER SCHEMA orchestrator OWNER TO {}").format(sql.Identifier(newcomer)))
    url = make_conninfo(empty_database_url, user=newcomer)
    migrate.upgrade(url)

    reported = notices_of(lambda: migrate.downgrade(url, to="base"))

    assert f"the schema orchestrator is kept: {newcomer} could not make it again" == reported[0]
    assert [] == empty.execute(OURS).fetchall()
    migrate.upgrade(url)


def test_ten_processes_at_once_migrate_once(empty: psycopg.Connection, empty_database_url: str) -> None:
    """All ten succeed, and there is one revision."""
    # Forked from one that has loaded Alembic: to load it ten times takes longer than the test.
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload([migrate.__name__])
    processes = [
        forks.Process(target=migrate.upgrade, args=(empty_database_url,), daemon=True) for _ in range(10)
    ]

    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_SECONDS)

    assert [0] * 10 == [process.exitcode for process in processes]
    assert [(migrate.head(),)] == empty.execute(REVISION).fetchall()


@pytest.mark.parametrize(
    "right", ["ALTER SCHEMA orchestrator OWNER TO {}", "GRANT CREATE, USAGE ON SCHEMA orchestrator TO {}"]
)
def test_a_role_that_may_not_create_a_schema_can_migrate_one_that_exists(
    newcomer: str, empty: psycopg.Connection, empty_database_url: str, right: str
) -> None:
    """The right to create in the schema, or to own it, is enough. Then tasks can be enqueued."""
    empty.execute("CREATE SCHEMA orchestrator")
    empty.execute(sql.SQL(right).format(sql.Identifier(newcomer)))

    migrate.upgrade(make_conninfo(empty_database_url, user=newcomer))

    with psycopg.connect(make_conninfo(empty_database_url, user=newcomer)) as own:
        assert 1 == one(own, "SELECT orchestrator.enqueue('mail')")


def test_missing_roles_are_skipped_with_a_notice(server_url: str, newcomer: str) -> None:
    """A role that may not create them gets a notice with the missing grants, and the migration succeeds.

    The roles belong to the cluster, and other tests need them, so the block that makes them runs with other names."""
    roles = (migrate.PACKAGE / "schema" / "roles.sql").read_text()
    loop = roles[roles.index("    FOREACH") : roles.index("    END LOOP;")].replace(
        "'orchestrator_", "'absent_"
    )
    block = f"DO $$ DECLARE role_name text; BEGIN {loop} END LOOP; END $$"
    notices: list[str | None] = []

    with psycopg.connect(make_conninfo(server_url, user=newcomer)) as own:
        own.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        own.execute(block.encode())

    expected = [
        f"role absent_{kind} is missing and {newcomer} may not create it: its grants are skipped"
        for kind in ("producer", "worker", "operator", "reader")
    ]
    assert expected == notices


def test_the_applications_own_alembic_is_left_alone(
    empty: psycopg.Connection, empty_database_url: str
) -> None:
    """Its version table in public does not change; ours is in our schema."""
    empty.execute("CREATE TABLE public.alembic_version (version_num varchar(32) PRIMARY KEY)")
    empty.execute("INSERT INTO public.alembic_version VALUES ('theirs')")

    migrate.upgrade(empty_database_url)
    migrate.downgrade(empty_database_url, to="base")

    assert [("theirs",)] == empty.execute("SELECT version_num FROM public.alembic_version").fetchall()


def test_the_script_makes_the_same_database(
    connection: psycopg.Connection, empty: psycopg.Connection
) -> None:
    """Through a plain connection, the result equals that of upgrade()."""
    empty.execute(migrate.script().encode())

    assert everything(connection) == everything(empty)
    assert [(migrate.head(),)] == empty.execute(REVISION).fetchall()


def test_the_script_needs_no_right_to_create_a_schema(newcomer: str, empty: psycopg.Connection) -> None:
    """As with upgrade(): an existing schema is enough."""
    empty.execute("CREATE SCHEMA orchestrator")
    empty.execute(sql.SQL("ALTER SCHEMA orchestrator OWNER TO {}").format(sql.Identifier(newcomer)))
    empty.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(newcomer)))

    empty.execute(migrate.script().encode())

    assert [(migrate.head(),)] == empty.execute(REVISION).fetchall()


@pytest.mark.parametrize("revision", ["9999", "nonsense", "", "-1", "0002:0001"])
def test_an_unknown_revision_is_refused(empty_database_url: str, revision: str) -> None:
    """With a sentence that names the newest, and without Alembic's own text. Nothing changes."""
    with pytest.raises(SchemaError, match=f"there is no revision '{revision}'.*'{migrate.head()}'"):
        migrate.move(empty_database_url, to=revision)
    with pytest.raises(SchemaError):
        migrate.upgrade(empty_database_url, to=revision)

    assert None is migrate.state(empty_database_url)[0]


def test_an_old_server_is_refused() -> None:
    """PostgreSQL 14 is refused by name, with the required version; 15 to 18 pass."""
    with pytest.raises(SchemaError, match=r"PostgreSQL 14\.13 \(Debian\).* needs 15 or newer"):
        migrate.refuse_old_server(140_013, "14.13 (Debian)")
    for version in (15, 16, 17, 18):
        migrate.refuse_old_server(version * 10_000, f"{version}.0")
