"""Rows of the ledger's tables: written, read back and checked.

Functions over an open transaction (see ``sherd.budget.storage``); none begins or ends one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.budget.amount import Amount
from sherd.budget.entries import (
    DP,
    EPSILON,
    GENESIS,
    IDP,
    Entry,
    Pending,
    Reservation,
    digest,
)
from sherd.budget.process import Life, Process, life
from sherd.errors import VerificationError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

UNSEEN_HOURS = 24
"""How long a reservation lives whose process cannot be seen from here (another container)."""


def now() -> str:
    """The time in UTC, for people; nothing is ordered by it, since clocks go back."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def damaged(what: str, where: str) -> VerificationError:
    """The error for a row that is not what it was when it was written."""
    return VerificationError(
        f"the ledger was changed after it was written: {what}",
        got=where,
        do="restore it from a backup; until then nothing more should be spent",
    )


def entry_of(row: Sequence[Any]) -> Entry:
    """The entry of a row of the table, its hash recomputed."""
    form = row[13]
    hashed = (*row[:12], *(row[14:18] if form != 1 else ()))
    if row[12] != digest(hashed, form):
        raise damaged("the row does not match its hash", f"row {row[0]!r}")
    names = ("index", "time", "kind", "population")
    rest = ("method", "plan_hash", "schema_hash", "artefact", "note", "reservation", "previous")
    return Entry(
        **dict(zip(names, row[:4], strict=True)),
        amount=None if row[4] is None else Amount.of_micro(row[4]),
        **dict(zip(rest, row[5:12], strict=True)),
        hash=row[12],
        form=form,
        measure=_measure_of(row),
        cost=None if row[15] is None else Amount.of_micro(row[15]),
        rho=_exact(row[16]),
        delta=_exact(row[17]),
    )


def _measure_of(row: Sequence[Any]) -> str:
    """What a row's amount is of; rows of form 1 do not say, but their method does."""
    if row[13] != 1:
        return str(row[14])
    if row[2] == "limit":
        return EPSILON
    return IDP if str(row[5]).startswith("idp") else DP


def _exact(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)


def head(db: sqlite3.Connection) -> tuple[int, str]:
    """The number and the hash of the last row, which must be there."""
    number, known = db.execute("SELECT number, hash FROM head").fetchone() or (None, None)
    last = db.execute("SELECT * FROM entries ORDER BY number DESC LIMIT 1").fetchone()
    end = (0, GENESIS) if last is None else (last[0], entry_of(last).hash)
    if end != (number, known):
        raise damaged("the last row is not the one that was written last", f"row {end[0]}")
    return end


def append(db: sqlite3.Connection, **fields: Any) -> Entry:
    """Add a row to the chain and move the head."""
    number, previous = head(db)
    entry = Entry(index=number + 1, time=now(), previous=previous, **fields)
    entry = replace(entry, hash=digest(entry.columns(), entry.form))
    row = (*entry.columns()[:12], entry.hash, entry.form, *entry.added())
    db.execute("INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", row)
    db.execute("UPDATE head SET number = ?, hash = ?", (entry.index, entry.hash))
    return entry


def insert_reservation(db: sqlite3.Connection, reservation: Reservation) -> None:
    """Write a reservation, sealed."""
    process = reservation.process
    row = (
        reservation.id,
        reservation.population,
        reservation.amount.micro,
        reservation.method,
        reservation.plan_hash,
        reservation.schema_hash,
        reservation.note,
        reservation.time,
        process.pid,
        process.started,
        process.boot,
        process.namespace,
        reservation.measure,
        None if reservation.rho is None else str(reservation.rho),
        None if reservation.delta is None else str(reservation.delta),
    )
    marks = ",".join("?" * (len(row) + 1))
    db.execute(f"INSERT INTO reservations VALUES ({marks})", (*row, digest(row)))  # noqa: S608


def reservations(db: sqlite3.Connection, id: str | None = None) -> list[Reservation]:  # noqa: A002
    """Every held reservation, or the one of that id, their seals checked."""
    rows = db.execute(
        "SELECT * FROM reservations WHERE ? IS NULL OR id = ? ORDER BY time, id", (id, id)
    )
    return [_reservation_of(row) for row in rows.fetchall()]


def _reservation_of(row: Sequence[Any]) -> Reservation:
    if row[-1] != digest(row[:-1]):
        raise damaged("a reservation does not match its seal", f"reservation {row[0]!r}")
    return Reservation(
        id=row[0],
        population=row[1],
        amount=Amount.of_micro(row[2]),
        method=row[3],
        plan_hash=row[4],
        schema_hash=row[5],
        note=row[6],
        time=row[7],
        process=Process(pid=row[8], started=row[9], boot=row[10], namespace=row[11]),
        measure=row[12],
        rho=_exact(row[13]),
        delta=_exact(row[14]),
    )


def abandoned(reservation: Reservation) -> bool:
    """Whether nobody is left to charge the reservation.

    Where the process cannot be seen from here, a day decides. Being wrong about it costs a
    run its work and never the budget: a freed reservation cannot be charged.
    """
    known = life(reservation.process)
    if known is not Life.UNKNOWN:
        return known is Life.GONE
    age = datetime.now(UTC) - datetime.fromisoformat(reservation.time)
    return age > timedelta(hours=UNSEEN_HOURS)


def delete_reservation(db: sqlite3.Connection, id: str) -> None:  # noqa: A002
    """Remove a reservation, freed or charged."""
    db.execute("DELETE FROM reservations WHERE id = ?", (id,))


def was_charged(db: sqlite3.Connection, id: str) -> bool:  # noqa: A002
    """Whether a charge came from that reservation."""
    charge = db.execute("SELECT 1 FROM entries WHERE reservation = ?", (id,)).fetchone()
    return charge is not None


def charge_of(db: sqlite3.Connection, plan_hash: str) -> Entry | None:
    """The first charge for a plan hash."""
    row = db.execute(
        "SELECT * FROM entries WHERE kind = 'charge' AND plan_hash = ? ORDER BY number LIMIT 1",
        (plan_hash,),
    ).fetchone()
    return None if row is None else entry_of(row)


def insert_artefact(db: sqlite3.Connection, pending: Pending) -> None:
    """Note where a charged artefact is staged and where it belongs."""
    process = pending.process
    row = (
        pending.index,
        str(pending.staged),
        str(pending.final),
        process.pid,
        process.started,
        process.boot,
        process.namespace,
    )
    seal = digest(row if pending.key is None else (*row, pending.key))
    db.execute("INSERT INTO artefacts VALUES (?,?,?,?,?,?,?,?,0,?)", (*row, seal, pending.key))


def unpublished(db: sqlite3.Connection, *, all: bool = False) -> list[Pending]:  # noqa: A002
    """Charged artefacts not seen to be published (or all of them), their seals checked."""
    rows = db.execute(
        "SELECT a.*, e.artefact FROM artefacts a JOIN entries e USING (number)"
        " WHERE a.published = 0 OR ? ORDER BY number",
        (all,),
    )
    return [_pending_of(row) for row in rows.fetchall()]


def _pending_of(row: Sequence[Any]) -> Pending:
    if row[7] != digest(row[:7] if row[9] is None else (*row[:7], row[9])):
        raise damaged("a staged artefact does not match its seal", f"row {row[0]!r}")
    return Pending(
        index=row[0],
        artefact=row[10],
        key=row[9],
        staged=Path(row[1]),
        final=Path(row[2]),
        process=Process(pid=row[3], started=row[4], boot=row[5], namespace=row[6]),
    )


def mark_published(db: sqlite3.Connection, index: int) -> None:
    """Note that an artefact is in its place; its key is needed no more."""
    waiting = [one for one in unpublished(db) if one.index == index]
    db.execute("DELETE FROM artefacts WHERE number = ?", (index,))
    for one in waiting:
        insert_artefact(db, replace(one, key=None))
    db.execute("UPDATE artefacts SET published = 1 WHERE number = ?", (index,))


def note_staging(db: sqlite3.Connection, path: Path, reservation: str) -> None:
    """Note where a run writes what it has not paid for, so that somebody can clear it away."""
    db.execute("INSERT OR REPLACE INTO stagings VALUES (?, ?)", (str(path), reservation))


def stagings(db: sqlite3.Connection, reservation: str) -> list[Path]:
    """Where a run writes."""
    rows = db.execute("SELECT path FROM stagings WHERE reservation = ?", (reservation,))
    return [Path(path) for (path,) in rows.fetchall()]


def forget_stagings(db: sqlite3.Connection, reservation: str) -> None:
    """Forget where a run wrote: it paid, or its folder is gone."""
    db.execute("DELETE FROM stagings WHERE reservation = ?", (reservation,))
