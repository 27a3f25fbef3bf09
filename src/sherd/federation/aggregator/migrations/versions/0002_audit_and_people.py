"""The audit log, when members were last seen, and people known by a provider.

Revision ID: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add a table and columns; what is there stays as it is."""
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
    op.add_column("members", sa.Column("seen", sa.BigInteger))
    op.add_column("members", sa.Column("person", sa.String(512)))


def downgrade() -> None:
    """Remove them."""
    op.drop_table("audit")
    for name in ("seen", "person"):
        op.drop_column("members", name)
