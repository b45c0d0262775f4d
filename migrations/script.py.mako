"""${message}"""

from orchestrator.schema import revision_files

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    revision_files.upgrade(__file__)
% if 'op.' in upgrades:
    ${upgrades}
% endif


def downgrade() -> None:
    revision_files.downgrade(__file__)
% if 'op.' in downgrades:
    ${downgrades}
% endif
