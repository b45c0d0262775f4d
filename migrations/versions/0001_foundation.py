"""The foundation: tasks and their leaves, types, queues, workers, attempts, keys, audit."""

from orchestrator.schema import revision_files

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    revision_files.upgrade(__file__)


def downgrade() -> None:
    """Do nothing: only `base` goes down, and schema/remove.sql removes everything then."""
