"""Recomputing a ledger from its first row: the chain, the sums, the limits and the seals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.budget import accounts, rows
from sherd.errors import VerificationError

if TYPE_CHECKING:
    import sqlite3


def verify(db: sqlite3.Connection) -> int:
    """The number of rows, after every one of them was found as it was written.

    Raises VerificationError at the first row that is not.
    """
    _check_file(db)
    accounts.walk(db, strict=True)
    for reservation in rows.reservations(db):
        if rows.was_charged(db, reservation.id):
            raise rows.damaged(
                "a reservation is held and charged", f"reservation {reservation.id!r}"
            )
    rows.unpublished(db, all=True)
    return rows.head(db)[0]


def _check_file(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    orphan = db.execute("PRAGMA foreign_key_check").fetchone()
    if found != "ok" or orphan is not None:
        raise VerificationError(
            "the ledger's file is damaged",
            got=str(found) if orphan is None else f"row {orphan[1]} of the table {orphan[0]}",
            do="restore it from a backup; do not delete it, it says what has been spent",
        )
