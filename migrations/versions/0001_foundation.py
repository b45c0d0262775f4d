"""The foundation: tasks and their leaves, types, queues, workers, attempts, keys, audit.

The SQL lies in the folder of the same name. Until the first release it may still change (migrations/freeze.py
copies schema/ into it); with that release it is frozen, and what `schema/` says then is for later revisions to
bring. A test holds both equal.
"""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

HERE = Path(__file__).with_suffix("")


def upgrade() -> None:
    for file in sorted(HERE.glob("[0-9]_*.sql")):
        run(file)


def downgrade() -> None:
    # The version table, the schema and the roles are the runner's (orchestrator/schema/remove.sql).
    run(HERE / "downgrade.sql")


def run(file: Path) -> None:
    """Send a file as it stands: exec_driver_sql, since text() would take `:name` for a parameter."""
    sql = file.read_text(encoding="utf-8")
    if op.get_context().as_sql:
        # Offline, alembic closes each statement with `;` itself.
        op.get_context().impl.static_output(sql.rstrip())
        return
    op.get_bind().exec_driver_sql(sql.replace("%", "%%"))
