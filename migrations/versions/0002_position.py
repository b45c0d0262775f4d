"""Position: an ordinary column, written by the enqueue functions and kept right by one trigger."""

from orchestrator.schema import revision_files

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    revision_files.upgrade(__file__)


def downgrade() -> None:
    """Do nothing: only `base` goes down, and schema/remove.sql removes everything then."""
