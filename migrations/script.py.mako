"""${message}"""

from orchestrator.schema import revision_files

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    revision_files.upgrade(__file__)


def downgrade() -> None:
    """Do nothing: only `base` goes down, and schema/remove.sql removes everything then."""
