"""The foundation: tasks and their leaves, types, queues, workers, attempts, keys, audit.

The SQL is in the folder of the same name. Until the first release it may still change (migrations/freeze.py
copies schema/ into it). From that release on it is frozen, and a change in `schema/` needs a new revision. A test
compares both.
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
    # orchestrator/schema/remove.sql removes the version table, the schema and the roles.
    run(HERE / "downgrade.sql")


def run(file: Path) -> None:
    """Send a file unchanged, with exec_driver_sql: text() would treat `:name` as a parameter."""
    sql = file.read_text(encoding="utf-8")
    if op.get_context().as_sql:
        # Offline, Alembic adds a `;` to each statement itself.
        op.get_context().impl.static_output(sql.rstrip())
        return
    op.get_bind().exec_driver_sql(sql.replace("%", "%%"))
