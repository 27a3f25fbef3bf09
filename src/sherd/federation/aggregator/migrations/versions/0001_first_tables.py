"""The first tables.

Revision ID: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def _round() -> sa.Column[str]:
    return sa.Column("round", sa.String(63), sa.ForeignKey("rounds.id"), primary_key=True)


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "members",
        sa.Column("name", sa.String(63), primary_key=True),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("key", sa.String(64)),
        sa.Column("token_sha256", sa.String(64), unique=True),
        sa.Column("added", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "rounds",
        sa.Column("id", sa.String(63), primary_key=True),
        sa.Column("state", sa.String(24), nullable=False, index=True),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("opened", sa.BigInteger, nullable=False),
        sa.Column("deadline", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "messages",
        _round(),
        sa.Column("sender", sa.String(63), primary_key=True),
        sa.Column("recipient", sa.String(63), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_messages_recipient", "messages", ["recipient", "round", "sequence"])
    op.create_table(
        "wanted",
        _round(),
        sa.Column("sender", sa.String(63), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
    )
    op.create_table(
        "chunks",
        _round(),
        sa.Column("sha256", sa.String(64), primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "grants",
        _round(),
        sa.Column("reader", sa.String(63), primary_key=True),
        sa.Column("sha256", sa.String(64), primary_key=True),
    )
    op.create_table(
        "heads",
        sa.Column("owner", sa.String(63), primary_key=True),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("time", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "challenges",
        sa.Column("nonce", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "sessions",
        sa.Column("token_sha256", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("expires", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Remove every table."""
    for name in (
        "sessions", "challenges", "heads", "grants", "chunks", "wanted", "messages", "rounds",
        "members",
    ):  # fmt: skip
        op.drop_table(name)
