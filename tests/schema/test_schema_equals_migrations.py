"""The files in `schema/` and the result of the migrations are equal, object by object."""

from pathlib import Path

import psycopg
import pytest
from alembic import command
from sqlalchemy import text

from orchestrator.schema import engine, migrate, tables
from tests.schema.catalog import COLUMNS, CONSTRAINTS, GRANTS, INDEXES, KINDS, SEQUENCES, catalog
from tests.schema.rows import one

SCHEMA = Path(migrate.__file__).parent


def test_alembic_finds_no_difference(database_url: str) -> None:
    """`alembic check` on a migrated database: nothing to generate."""
    with engine.connecting(database_url) as connection, connection.begin():
        config = migrate.alembic_config()
        config.attributes["connection"] = connection
        command.check(config)


@pytest.mark.parametrize(
    "query",
    [COLUMNS, CONSTRAINTS, INDEXES, SEQUENCES],
    ids=["columns", "constraints", "indexes", "sequences"],
)
def test_tables_py_makes_the_same_tables(
    connection: psycopg.Connection, empty_database_url: str, query: str
) -> None:
    """Types, nullability, defaults, generated expressions, CHECKs, keys and indexes, in the same order."""
    with engine.connecting(empty_database_url) as scratch, scratch.begin():
        scratch.execute(text("CREATE SCHEMA orchestrator"))
        scratch.exec_driver_sql((SCHEMA / "functions" / "clock.sql").read_text())
        tables.metadata.create_all(scratch)
        made = catalog(scratch, query)

    assert made
    assert catalog(connection, query) == made


@pytest.mark.parametrize("kind", KINDS)
def test_every_object_has_one_file_and_no_file_is_left_over(
    connection: psycopg.Connection, kind: str
) -> None:
    """The names in the catalog are the names of the files."""
    files = sorted(path.stem for path in (SCHEMA / kind).glob("*.sql"))
    rows = catalog(connection, KINDS[kind])
    match kind:
        case "functions":
            names = [row[0].removeprefix("orchestrator.").partition("(")[0] for row in rows]
        case "triggers":
            # Each leaf has a copy of its root's.
            names = list({row[1] for row in rows})
        case _:
            names = [row[0] for row in rows]

    assert files == sorted(names)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_make_the_existing_objects(connection: psycopg.Connection, kind: str) -> None:
    """Each file, applied once more, changes no definition, no option and no grant."""
    before = catalog(connection, KINDS[kind])

    for file in sorted((SCHEMA / kind).glob("*.sql")):
        connection.execute(file.read_bytes())

    assert before == catalog(connection, KINDS[kind])


def test_the_roles_make_the_existing_grants(connection: psycopg.Connection) -> None:
    """Applied once more, roles.sql changes nothing, also when a new day has its leaf."""
    before = catalog(connection, GRANTS)
    leaf = one(connection, "SELECT orchestrator.ensure_partition('2030-01-01')")

    connection.execute((SCHEMA / "roles.sql").read_bytes())

    after = [row for row in catalog(connection, GRANTS) if not row[0].startswith(leaf)]
    assert before == after
