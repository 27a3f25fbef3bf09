"""The audit log, and people known by a provider.

Revision ID: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add a table and a column; what is there stays as it is."""
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("time", sa.BigInteger, nullable=False),
        sa.Column("actor", sa.String(63), nullable=False),
        sa.Column("event", sa.String(63), nullable=False),
        sa.Column("subject", sa.String(63), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.add_column("members", sa.Column("person", sa.String(512)))


def downgrade() -> None:
    """Remove them."""
    op.drop_table("audit")
    op.drop_column("members", "person")
