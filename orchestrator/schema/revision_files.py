"""Run a revision of migrations/versions: its SQL is in the folder with the name of its module."""

from pathlib import Path

from alembic import op


def upgrade(module: str) -> None:
    """Run the files in the order of their numbers; a revision without files changes nothing."""
    for file in sorted(Path(module).with_suffix("").glob("[0-9]_*.sql")):
        # exec_driver_sql sends a file unchanged. text() would treat `:name` as a parameter.
        sql = file.read_text(encoding="utf-8")
        if op.get_context().as_sql:
            # Offline, Alembic adds a `;` to each statement itself.
            op.get_context().impl.static_output(sql.rstrip())
        else:
            op.get_bind().exec_driver_sql(sql.replace("%", "%%"))
