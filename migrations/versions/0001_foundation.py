"""The foundation: tasks and their leaves, types, queues, workers, attempts, keys, audit."""

from orchestrator.schema import revision_files

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    revision_files.upgrade(__file__)


def downgrade() -> None:
    # orchestrator/schema/remove.sql removes the version table, the schema and the roles.
    revision_files.downgrade(__file__)
