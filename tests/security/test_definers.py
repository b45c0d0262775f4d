"""No caller can make a function that runs with its owner's rights (SECURITY DEFINER) run foreign code.

Such a function must find its names in our schema, whatever search_path the caller sets. It must not run SQL that it
builds from unquoted text.
"""

from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from orchestrator import Orchestrator
from orchestrator.schema import migrate
from tests.docs.pages import REPOSITORY
from tests.schema.logins import Login, logins
from tests.schema.role_statements import ENQUEUES, KEEPS_HOUSE, OPERATES
from tests.schema.rows import one, put
from tests.security import dynamic
from tests.security.rights import granted, matrix
from tests.worker.running import run_until_empty, status

SOURCES = sorted((REPOSITORY / "orchestrator" / "schema" / "functions").glob("*.sql"))
PINNED = "search_path=pg_catalog, orchestrator, pg_temp"

# For each function and operator of PostgreSQL that our functions name: one with the same signature in a schema of the
# caller. It raises a warning with the role that it runs as.
SHADOWS = r"""
    DO $do$
    DECLARE
        words text[] := ARRAY(
            SELECT DISTINCT m[1] FROM pg_proc AS p, regexp_matches(p.prosrc, '\m([a-z_]+)\(', 'g') AS m
            WHERE p.pronamespace = 'orchestrator'::regnamespace
        ) || ARRAY['statement_timestamp', 'now'];
        named record;
    BEGIN
        FOR named IN
            SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments,
                pg_get_function_result(p.oid) AS result
            FROM pg_proc AS p
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.proname = ANY (words)
        LOOP
            BEGIN
                EXECUTE format(
                    'CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
                    '$f$ BEGIN RAISE WARNING ''%s ran as %%'', current_user; RETURN; END $f$',
                    named.name, named.arguments, named.result, named.name
                );
            EXCEPTION WHEN OTHERS THEN
                BEGIN
                    EXECUTE format(
                        'CREATE FUNCTION evil.%I(%s) RETURNS %s LANGUAGE plpgsql AS '
                        '$f$ BEGIN RAISE WARNING ''%s ran as %%'', current_user; RETURN NULL; END $f$',
                        named.name, named.arguments, named.result, named.name
                    );
                EXCEPTION WHEN OTHERS THEN
                    NULL;  -- of types that only C functions take
                END;
            END;
        END LOOP;
        FOR named IN
            SELECT o.oprname AS name, o.oprleft::regtype::text AS lefts, o.oprright::regtype::text AS rights, o.oid
            FROM pg_operator AS o
            WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprresult = 'boolean'::regtype
                AND o.oprname IN ('=', '<>', '<', '>', '<=', '>=', '~', '!~', '@>')
                AND o.oprleft::regtype::text = ANY (ARRAY['text', 'bigint', 'integer', 'smallint', 'uuid', 'jsonb',
                    'date', 'timestamp with time zone', 'interval', 'name', 'oid'])
                AND o.oprright = o.oprleft
        LOOP
            EXECUTE format(
                'CREATE FUNCTION evil.o%s(%s, %s) RETURNS boolean LANGUAGE plpgsql AS '
                '$f$ BEGIN RAISE WARNING ''operator %s ran as %%'', current_user; RETURN NULL; END $f$',
                named.oid, named.lefts, named.rights, named.name
            );
            EXECUTE format(
                'CREATE OPERATOR evil.%s (FUNCTION = evil.o%s, LEFTARG = %s, RIGHTARG = %s)',
                named.name, named.oid, named.lefts, named.rights
            );
        END LOOP;
    END
    $do$
"""
# Temporary tables of the caller with the names of our tables and of the catalog.
TEMPORARY = """
    DO $$
    DECLARE
        named name;
    BEGIN
        FOR named IN
            SELECT c.relname FROM pg_class AS c
            WHERE c.relnamespace = 'orchestrator'::regnamespace AND c.relkind IN ('r', 'p', 'v')
                OR c.relname IN ('pg_class', 'pg_inherits', 'pg_database')
        LOOP
            EXECUTE format('CREATE TEMP TABLE %I (evil integer)', named);
        END LOOP;
    END
    $$
"""
PATHS = ("evil, pg_temp, pg_catalog, orchestrator", "pg_temp, evil, orchestrator, pg_catalog")


def test_every_function_sets_our_search_path(connection: psycopg.Connection) -> None:
    """Only these two set none: PostgreSQL inlines them into the calling statement, and they call by full names."""
    rows = connection.execute(
        "SELECT p.proname, p.prosecdef,"
        " coalesce((SELECT c FROM unnest(p.proconfig) AS c WHERE c LIKE 'search_path=%'), '')"
        " FROM pg_proc AS p WHERE p.pronamespace = 'orchestrator'::regnamespace"
    ).fetchall()

    assert {("clock", False, ""), ("position_of", False, "")} == {row for row in rows if row[2] != PINNED}
    assert 15 < sum(definer for _, definer, _ in rows)


def test_every_view_reads_with_the_rights_of_its_reader(connection: psycopg.Connection) -> None:
    """A view with its owner's rights would show a producer the tasks of other producers."""
    rows = connection.execute(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'orchestrator'::regnamespace"
        " AND c.relkind IN ('v', 'm') AND NOT coalesce('security_invoker=true' = ANY (c.reloptions), false)"
    ).fetchall()

    assert [] == rows


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.name))
def test_no_function_runs_unquoted_text(path: Path) -> None:
    """EXECUTE runs a constant, or a format() whose placeholders quote."""
    assert [] == dynamic.found(path.read_text())


@pytest.mark.parametrize(
    "planted",
    [
        "EXECUTE 'DROP TABLE ' || leaf;",
        "EXECUTE leaf;",
        "EXECUTE format('DROP TABLE orchestrator.%s', leaf);",
        "EXECUTE format('DROP TABLE %I.%2$s', 'orchestrator', leaf);",
        "EXECUTE format('DROP TABLE ' || leaf);",
        "EXECUTE format(leaf);",
        "query text := 'SELECT 1'; BEGIN EXECUTE query;",
        "FOR x IN EXECUTE concat('SELECT ', leaf) LOOP",
    ],
)
def test_the_search_finds_an_execute_of_unquoted_text(planted: str) -> None:
    """The text is concatenated, comes from a variable, or fills a placeholder that does not quote."""
    assert [] != dynamic.found(f"DECLARE leaf text; BEGIN {planted} END")


@pytest.mark.parametrize(
    "harmless",
    [
        "EXECUTE format('DROP TABLE orchestrator.%I', leaf);",
        "EXECUTE format('SELECT 1 FROM %1$s AS t, %1$s AS u', place) INTO x USING y;",
        "EXECUTE 'SELECT 1' INTO x;",
        "EXECUTE format('CREATE TABLE a.%I'\n ' (LIKE b, CONSTRAINT %I)',\n leaf, leaf || '_pkey');",
        "q CONSTANT text := $q$ SELECT ';' $q$; BEGIN FOR x IN EXECUTE q USING 1 LOOP",
        "-- EXECUTE leaf;\n",
    ],
)
def test_harmless_functions_pass(harmless: str) -> None:
    """The search reports no fault in safe code."""
    assert [] == dynamic.found(f"DECLARE leaf text; place CONSTANT regclass := x; BEGIN {harmless} END")


def attacked(session: psycopg.Connection, person: str, connection: psycopg.Connection) -> list[str]:
    """Do the work of every role with traps first in search_path; return the traps that ran as another role."""
    connection.execute(sql.SQL("CREATE SCHEMA evil AUTHORIZATION {}").format(sql.Identifier(person)))
    session.execute(SHADOWS)
    session.execute(TEMPORARY)
    notices: list[str] = []
    session.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    for path in PATHS:
        session.execute(sql.SQL("SET search_path = {}").format(sql.SQL(path)))
        for statement in (*ENQUEUES, *OPERATES, *KEEPS_HOUSE):
            try:
                with session.transaction(force_rollback=True):
                    session.execute(statement.encode())
            except psycopg.Error:
                continue
    return sorted({line for line in notices if " ran as " in line and not line.endswith(f" ran as {person}")})


@pytest.mark.parametrize("role", ["producer", "worker", "operator"])
def test_a_callers_own_functions_never_run_as_the_owner(
    login: Login, connection: psycopg.Connection, role: str
) -> None:
    """The caller's functions, operators and tables have the same names, and come first in the caller's path."""
    session = login(role)
    put(connection)

    assert [] == attacked(session, session.info.user, connection)


def test_the_traps_find_a_function_without_search_path(login: Login, connection: psycopg.Connection) -> None:
    """Without its own search_path the function calls the traps as its owner, here a superuser."""
    session = login("producer")
    connection.execute("ALTER FUNCTION orchestrator.enqueue_many(jsonb) RESET search_path")

    found = attacked(session, session.info.user, connection)

    assert f"jsonb_typeof ran as {connection.info.user}" in found


def test_a_producer_cannot_forge_created_at(login: Login, connection: psycopg.Connection) -> None:
    """clock() calls PostgreSQL's function, not one of the same name in the caller's path."""
    session = login("producer")
    connection.execute(
        sql.SQL("CREATE SCHEMA evil AUTHORIZATION {}").format(sql.Identifier(session.info.user))
    )
    session.execute(
        "CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE sql AS"
        " $$ SELECT timestamptz '1999-01-01' $$"
    )
    session.execute("SET search_path = evil, pg_catalog")

    session.execute("INSERT INTO orchestrator.tasks (type) VALUES ('mail')")

    assert 1999 != one(connection, "SELECT date_part('year', created_at)::integer FROM orchestrator.tasks")


def test_an_owner_needs_only_create_on_the_database(
    administrator: psycopg.Connection, template_database: str, empty_database_url: str
) -> None:
    """A role with CREATE on this one database migrates it and owns all objects. The rights are the same. A producer
    enqueues a task, a worker runs it and leads, and an operator requeues it."""
    with logins(administrator, empty_database_url) as log_in:
        owner = log_in("public").info.user
        with psycopg.connect(empty_database_url, autocommit=True) as superuser:
            database = sql.Identifier(superuser.info.dbname)
            superuser.execute(
                sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(database, sql.Identifier(owner))
            )
            migrate.upgrade(make_conninfo(empty_database_url, user=owner))
            rights = matrix(granted(superuser))
            owners = superuser.execute(
                "SELECT DISTINCT proowner::regrole::text FROM pg_proc"
                " WHERE pronamespace = 'orchestrator'::regnamespace"
            ).fetchall()
        served = serve(administrator, empty_database_url)

    assert [(owner,)] == owners
    assert rights in (REPOSITORY / "docs" / "reference" / "rights.md").read_text()
    assert ["completed", "pending"] == served


def serve(administrator: psycopg.Connection, url: str) -> list[str]:
    """Enqueue as a producer, run as a worker, requeue as an operator; return both statuses of the task."""
    with logins(administrator, url) as log_in:
        task_id = one(log_in("producer"), "SELECT orchestrator.enqueue('mail', key => 'k')")
    with logins(administrator, url) as log_in:
        app = Orchestrator(make_conninfo(url, user=log_in("worker").info.user))
        app.task(name="mail")(lambda: None)
        run_until_empty(app)
        app.close()
    with logins(administrator, url) as log_in:
        session = log_in("operator")
        before = status(session, task_id)
        session.execute("SELECT orchestrator.requeue(%s)", [task_id])
        return [before, status(session, task_id)]
