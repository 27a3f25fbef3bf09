"""Recomputing a ledger from its first row: the chain, the sums, the limits and the seals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.budget import rows
from sherd.budget.amount import Amount
from sherd.budget.entries import GENESIS
from sherd.errors import VerificationError

if TYPE_CHECKING:
    import sqlite3

    from sherd.budget.entries import Entry

    Sums = dict[str, tuple[int | None, int]]


def verify(db: sqlite3.Connection) -> int:
    """The number of rows, after every one of them was found as it was written.

    Raises VerificationError at the first row that is not.
    """
    _check_file(db)
    count, last = 0, GENESIS
    sums: Sums = {}
    for row in db.execute("SELECT * FROM entries ORDER BY number"):
        count += 1
        if row[0] != count:
            raise rows.damaged("a row is missing", f"row {count}")
        entry = rows.entry_of(row)
        if entry.previous != last:
            raise rows.damaged("the row does not follow the one before it", f"row {count}")
        last = entry.hash
        _add(sums, entry)
    rows.head(db)  # rows cut off at the end leave a whole chain
    _check_sums(db, sums)
    for reservation in rows.reservations(db):
        if rows.was_charged(db, reservation.id):
            raise rows.damaged(
                "a reservation is held and charged", f"reservation {reservation.id!r}"
            )
    rows.unpublished(db, all=True)
    return count


def _check_file(db: sqlite3.Connection) -> None:
    found = db.execute("PRAGMA integrity_check(1)").fetchone()[0]
    orphan = db.execute("PRAGMA foreign_key_check").fetchone()
    if found != "ok" or orphan is not None:
        raise VerificationError(
            "the ledger's file is damaged",
            got=str(found) if orphan is None else f"row {orphan[1]} of the table {orphan[0]}",
            do="restore it from a backup; do not delete it, it says what has been spent",
        )


def _add(sums: Sums, entry: Entry) -> None:
    limit, spent = sums.get(entry.population, (None, 0))
    amount = None if entry.amount is None else entry.amount.micro
    if entry.kind == "limit":
        limit = amount
    else:
        assert amount is not None
        spent += amount
        if limit is not None and spent > limit:
            raise rows.damaged("the row spends more than the limit allowed", f"row {entry.index}")
    sums[entry.population] = (limit, spent)


def _check_sums(db: sqlite3.Connection, sums: Sums) -> None:
    written = {
        population: (limit, spent)
        for population, limit, spent in db.execute("SELECT * FROM accounts")
    }
    for population in sorted({*sums, *written}, key=repr):
        if sums.get(population) != written.get(population):
            _, spent = sums.get(population, (None, 0))
            raise rows.damaged(
                "the sums do not match the rows",
                f"population {population!r}, whose rows sum to {Amount.of_micro(spent)}",
            )
