"""${message}

Revision ID: ${up_revision}
Revises: ${down_revision | comma,n}
"""

from pillarbox.database.migrate import run_script

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None

UP = """
"""

DOWN = """
"""


def upgrade() -> None:
    """Create."""
    run_script(UP)


def downgrade() -> None:
    """Drop."""
    run_script(DOWN)
