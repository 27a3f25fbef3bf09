"""The tables of the aggregator's database, the same in SQLite and in PostgreSQL."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

MEMBERS = Table(
    "members",
    METADATA,
    Column("name", String(63), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("key", String(64)),
    Column("token_sha256", String(64), unique=True),
    Column("added", BigInteger, nullable=False),
    Column("person", String(512)),
)
"""Who may use the service: owners by key, operators and analysts by token."""

ROUNDS = Table(
    "rounds",
    METADATA,
    Column("id", String(63), primary_key=True),
    Column("state", String(24), nullable=False, index=True),
    Column("data", Text, nullable=False),
    Column("opened", BigInteger, nullable=False),
    Column("deadline", BigInteger, nullable=False),
)
"""Every round with what its machine knows, as JSON."""

MESSAGES = Table(
    "messages",
    METADATA,
    Column("round", String(63), ForeignKey("rounds.id"), primary_key=True),
    Column("sender", String(63), primary_key=True),
    Column("recipient", String(63), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("sha256", String(64), nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
)
"""Every envelope that was accepted or sent."""

Index("ix_messages_recipient", MESSAGES.c.recipient, MESSAGES.c.round, MESSAGES.c.sequence)

WANTED = Table(
    "wanted",
    METADATA,
    Column("round", String(63), ForeignKey("rounds.id"), primary_key=True),
    Column("sender", String(63), primary_key=True),
    Column("sequence", Integer, primary_key=True),
    Column("sha256", String(64), primary_key=True),
)
"""Chunks that were announced and have not come."""

CHUNKS = Table(
    "chunks",
    METADATA,
    Column("round", String(63), ForeignKey("rounds.id"), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
"""Chunks that have come; deleted when their round has ended."""

GRANTS = Table(
    "grants",
    METADATA,
    Column("round", String(63), ForeignKey("rounds.id"), primary_key=True),
    Column("reader", String(63), primary_key=True),
    Column("sha256", String(64), primary_key=True),
)
"""Who may read which chunk: the recipient of a message that announces it."""

HEADS = Table(
    "heads",
    METADATA,
    Column("owner", String(63), primary_key=True),
    Column("head", String(64), nullable=False),
    Column("time", BigInteger, nullable=False),
)
"""The last ledger head seen from each owner."""

ANNOUNCED = Table(
    "announced",
    METADATA,
    Column("owner", String(63), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("time", BigInteger, nullable=False),
)
"""What each owner announced last of its policy, as it was signed."""

SEEN = Table(
    "seen",
    METADATA,
    Column("owner", String(63), primary_key=True),
    Column("time", BigInteger, nullable=False),
)
"""When each owner called last."""

CHALLENGES = Table(
    "challenges",
    METADATA,
    Column("nonce", String(64), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("expires", BigInteger, nullable=False),
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("token_sha256", String(64), primary_key=True),
    Column("name", String(63), nullable=False),
    Column("expires", BigInteger, nullable=False),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("actor", String(63), nullable=False),
    Column("event", String(63), nullable=False),
    Column("subject", String(63), nullable=False),
    Column("detail", Text, nullable=False),
    Column("hash", String(64), nullable=False),
)
"""What was done by whom, each line with a hash over it and the line before."""
