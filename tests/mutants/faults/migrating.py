"""Migrations that leave something out, or print what they should not."""

from tests.mutants.mutant import mutant

ENV = "migrations/env.py"
ALEMBIC = ("schema/test_alembic.py",)

MUTANTS = (
    mutant(
        "migrated-without-grants",
        ENV,
        "        connection.exec_driver_sql(migrate.grants()",
        "        (migrate.grants()",
        why="The schema is there, and none of the four roles may use it.",
        suites=ALEMBIC,
    ),
    mutant(
        "a-look-that-writes",
        ENV,
        'return "destination_rev" in asked',
        "return True",
        why="`alembic current` makes the schema in a database that was named by mistake.",
        suites=ALEMBIC,
    ),
    mutant(
        "revisions-without-numbers",
        ENV,
        "        script.rev_id = number",
        "        pass",
        why="oldest_code is compared with numbers: with another id no worker knows whether it may start.",
        suites=ALEMBIC,
    ),
)
