"""The matrix of role × object × verb is the same in the reference page, in the catalog and in real attempts."""

import psycopg
import pytest

from tests.docs.pages import REPOSITORY
from tests.schema.logins import Login
from tests.security.rights import ROLES, granted, matrix, objects, tried

PAGE = REPOSITORY / "docs" / "reference" / "rights.md"

# Every grant in the schema to a role other than the owner, and whether it has the grant option.
GRANTS = """
    SELECT DISTINCT coalesce(r.rolname, 'PUBLIC'), x.is_grantable
    FROM (
        SELECT c.relacl AS acl, c.relowner AS owner FROM pg_class AS c
        WHERE c.relnamespace = 'orchestrator'::regnamespace
        UNION ALL
        SELECT a.attacl, c.relowner FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'orchestrator'::regnamespace
        UNION ALL
        SELECT coalesce(p.proacl, acldefault('f', p.proowner)), p.proowner FROM pg_proc AS p
        WHERE p.pronamespace = 'orchestrator'::regnamespace
        UNION ALL
        SELECT n.nspacl, n.nspowner FROM pg_namespace AS n WHERE n.nspname = 'orchestrator'
        UNION ALL
        SELECT d.defaclacl, d.defaclrole FROM pg_default_acl AS d
    ) AS o
    CROSS JOIN LATERAL aclexplode(o.acl) AS x
    LEFT JOIN pg_roles AS r ON r.oid = x.grantee
    WHERE x.grantee <> o.owner
    ORDER BY 1
"""
# Attributes and memberships of our roles: powers that are not grants.
POWERS = """
    SELECT r.rolname
    FROM pg_roles AS r
    WHERE r.rolname LIKE 'orchestrator\\_%'
        AND (r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolcanlogin OR r.rolreplication OR r.rolbypassrls)
    UNION ALL
    SELECT m.member::regrole::text || ' in ' || m.roleid::regrole::text
    FROM pg_auth_members AS m
    WHERE m.member::regrole::text LIKE 'orchestrator\\_%'
"""


@pytest.mark.parametrize("role", ROLES)
def test_the_granted_rights_are_exactly_the_usable_ones(
    login: Login, connection: psycopg.Connection, role: str
) -> None:
    """A member of one role tries each verb on each object and rolls it back. The server allows exactly what the matrix
    lists."""
    rights = granted(connection)
    leaves = [thing for thing in objects(connection) if thing.name == "tasks_done_YYYYMMDD"]
    alike = {thing.oid for thing in leaves} - {leaves[0].oid}

    done = tried(login(role), [thing for thing in objects(connection) if thing.oid not in alike])

    assert {key: role in rights[key] for key in done} == done
    assert {"SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "TRIGGER", "EXECUTE", "USAGE", "CREATE"} == {
        verb for _, verb in done
    }


def test_every_object_has_its_line(connection: psycopg.Connection) -> None:
    """The page lists each table, column, function and right. The schema has no object of another kind."""
    kinds = connection.execute(
        "SELECT DISTINCT d.classid::regclass::text FROM pg_depend AS d"
        " WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = 'orchestrator'::regnamespace ORDER BY 1"
    ).fetchall()

    assert matrix(granted(connection)) in PAGE.read_text(), (
        "run `python -m tests.docs.reference`, and judge it"
    )
    assert [("pg_class",), ("pg_proc",)] == kinds


def test_a_new_object_and_a_new_right_are_found(connection: psycopg.Connection) -> None:
    """A new table, a right on one column and a right of PUBLIC each change the matrix."""
    before = matrix(granted(connection)).splitlines()

    connection.execute("CREATE TABLE orchestrator.extra (n integer)")
    connection.execute("GRANT SELECT (payload) ON orchestrator.tasks TO orchestrator_producer")
    connection.execute(
        "GRANT EXECUTE ON FUNCTION orchestrator.take_key(text, text, bigint, interval) TO PUBLIC"
    )

    after = matrix(granted(connection)).splitlines()
    assert [
        "table extra                         ·         ·         ·         ·         ·",
        "  .payload                          ra        a         ·         ·         ·",
        "function take_key °                 X         X         X         X         X",
    ] == [line for line in after if line not in before]


def test_a_leaf_that_differs_from_the_others_is_found(connection: psycopg.Connection) -> None:
    """All partitions of tasks_done share a line, so their rights must be equal."""
    connection.execute(
        "DO $$ BEGIN EXECUTE format('GRANT SELECT ON orchestrator.%I TO orchestrator_producer',"
        " (SELECT min(leaf) FROM orchestrator.day_leaves)); END $$"
    )

    with pytest.raises(AssertionError, match="should be alike"):
        matrix(granted(connection))


def test_no_other_role_has_a_right_and_no_role_can_grant_one(connection: psycopg.Connection) -> None:
    """Only our four roles have rights, and no grant has the grant option."""
    four = [(f"orchestrator_{role}", False) for role in sorted(ROLES) if role != "public"]

    assert four == connection.execute(GRANTS).fetchall()


def test_the_roles_have_no_power_but_their_grants(connection: psycopg.Connection) -> None:
    """They cannot log in, make roles or databases, replicate, or bypass row security. They are members of no role."""
    assert [] == connection.execute(POWERS).fetchall()
