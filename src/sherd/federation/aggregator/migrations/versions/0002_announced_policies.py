"""What owners announced of their policies, and when they called last.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "announced",
        sa.Column("owner", sa.String(63), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "seen",
        sa.Column("owner", sa.String(63), primary_key=True),
        sa.Column("time", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Remove them."""
    op.drop_table("seen")
    op.drop_table("announced")
