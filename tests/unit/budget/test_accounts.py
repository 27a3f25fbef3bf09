from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from sherd.budget import Amount, Ledger, Reservation, rows
from sherd.budget.entries import digest
from sherd.errors import VerificationError

if TYPE_CHECKING:
    from pathlib import Path

Reserve = Callable[..., Reservation]
HASH = "c" * 64
OUTSIDE = {("artefacts", "published")}
"""Columns that are outside the chain on purpose."""


@pytest.fixture
def filled(ledger: Ledger, reserve: Reserve, tmp_path: Path) -> Ledger:
    """A ledger with a row of every kind in every table."""
    ledger.set_limit("people", Amount(5))
    ledger.charge(reserve("1", note="one"), artefact_sha256=HASH)
    (tmp_path / "staged").write_text("")
    ledger.charge(
        reserve("1"), artefact_sha256=HASH, staged=tmp_path / "staged", final=tmp_path / "final"
    )
    ledger.set_limit("others", None)
    ledger.charge(reserve("2", population="others"), artefact_sha256=HASH)
    reserve("1", note="running")
    return ledger


def _tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("PRAGMA foreign_keys = OFF")
        for statement in statements:
            db.execute(statement)


def _cells(path: Path) -> list[tuple[str, str, str, object]]:
    """Every cell of every table: table, key condition, column and value."""
    keys = {"reservations": "id", "head": "one"}
    found: list[tuple[str, str, str, object]] = []
    with closing(sqlite3.connect(path)) as db:
        for table in ("entries", "head", "reservations", "artefacts"):
            cursor = db.execute(f"SELECT * FROM {table}")  # noqa: S608 - our own names
            names = [column[0] for column in cursor.description]
            key = keys.get(table, "number")
            for row in cursor:
                where = f"{key} = {row[names.index(key)]!r}"
                found += [(table, where, *pair) for pair in zip(names, row, strict=True)]
    return [cell for cell in found if cell[::2][:2] not in OUTSIDE]


def test_every_changed_cell_is_found(filled: Ledger) -> None:
    """Changing any column of any row, to another value, bytes or broken text, is found."""
    assert filled.verify() == 5
    whole = filled.path.read_bytes()
    tried = 0
    for table, where, column, value in _cells(filled.path):
        changes = [
            f"{value + 100}" if isinstance(value, int) else f"'{value or ''}x'",
            "x'00ff'",
            "CAST(x'ff' AS TEXT)",  # no UTF-8
        ]
        for change in changes:
            try:
                _tamper(filled.path, f"UPDATE {table} SET {column} = {change} WHERE {where}")  # noqa: S608
            except sqlite3.IntegrityError:  # bytes as a row's number: SQLite itself refuses
                continue
            with pytest.raises(VerificationError):
                filled.verify()
            filled.path.write_bytes(whole)
            tried += 1
    assert tried > 150
    assert filled.verify() == 5


@pytest.mark.parametrize(
    ("table", "where"),
    [
        *(("entries", f"number = {number}") for number in range(1, 6)),
        ("head", "1"),
    ],
)
def test_a_removed_row_is_found(filled: Ledger, table: str, where: str) -> None:
    """Removing a row, the last one too, is found."""
    _tamper(filled.path, f"DELETE FROM {table} WHERE {where}")  # noqa: S608
    with pytest.raises(VerificationError):
        filled.verify()


def test_says_which_row(filled: Ledger) -> None:
    """The message names the row that was changed."""
    _tamper(filled.path, "UPDATE entries SET amount = 1 WHERE number = 3")
    with pytest.raises(VerificationError, match="does not match its hash; got row 3"):
        filled.verify()
    with pytest.raises(VerificationError, match="row 3"):
        filled.entries()


def test_a_rehashed_row_breaks_the_chain(filled: Ledger) -> None:
    """A changed row with a hash of its own does not carry the next one."""
    with closing(sqlite3.connect(filled.path, isolation_level=None)) as db:
        row = list(db.execute("SELECT * FROM entries WHERE number = 2").fetchone())
        row[4] = 1
        fresh = digest([*row[:12], *row[14:]], row[13])
        db.execute("UPDATE entries SET amount = 1, hash = ? WHERE number = 2", [fresh])
    with pytest.raises(VerificationError, match="does not follow the one before it; got row 3"):
        filled.verify()


def test_rows_swapped_are_found(filled: Ledger) -> None:
    """Two rows that changed places are found."""
    _tamper(
        filled.path,
        "UPDATE entries SET number = 99 WHERE number = 2",
        "UPDATE entries SET number = 2 WHERE number = 3",
        "UPDATE entries SET number = 3 WHERE number = 99",
    )
    with pytest.raises(VerificationError):
        filled.verify()


def test_a_cut_off_end_stops_spending(filled: Ledger) -> None:
    """Where the last row is gone, nothing more is written and verifying says so."""
    _tamper(filled.path, "DELETE FROM entries WHERE number = 5")
    with pytest.raises(VerificationError, match="last row"):
        filled.verify()
    with pytest.raises(VerificationError, match="last row"):
        filled.set_limit("people", None)


def test_a_row_past_the_limit_is_found(filled: Ledger) -> None:
    """A well-formed chain that spends more than the limit in force is not believed."""
    with filled._writing() as db:
        rows.append(
            db,
            kind="charge",
            population="people",
            amount=Amount(4),
            measure="dp",
            reservation="forged",
        )
    with pytest.raises(VerificationError, match="more than the limit allowed; got row 6"):
        filled.verify()


def test_a_reservation_charged_and_held_is_found(filled: Ledger) -> None:
    """A charged reservation that is put back is found."""
    held = filled.reservations()[0]
    entry = filled.charge(held, artefact_sha256=HASH)
    assert entry.reservation == held.id
    with filled._writing() as db:
        rows.insert_reservation(db, held)
    with pytest.raises(VerificationError, match="held and charged"):
        filled.verify()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET amount = 99000000 WHERE kind = 'limit' AND population = 'people'",
        "UPDATE entries SET amount = 0 WHERE kind = 'charge'",
        "UPDATE entries SET measure = 'none' WHERE kind = 'charge'",
        "DELETE FROM entries WHERE kind = 'limit' AND population = 'people'",
    ],
)
def test_a_changed_ceiling_or_charge_is_found_before_anything_is_spent(
    filled: Ledger, change: str
) -> None:
    """Whoever reserves, charges or looks at an account has the whole chain checked first."""
    held = filled.reservations()[0]
    _tamper(filled.path, change)
    with pytest.raises(VerificationError):
        _reserve(filled)
    with pytest.raises(VerificationError):
        filled.charge(held, artefact_sha256=HASH)
    with pytest.raises(VerificationError):
        filled.account("people")
    with pytest.raises(VerificationError):
        filled.accounts()


def _reserve(ledger: Ledger) -> object:
    return ledger.reserve(
        population="people", amount=Amount(1), plan_hash=HASH, schema_hash=HASH, method="dp"
    )


@pytest.mark.parametrize("name", [" people", "People ", "PEOPLE", "ｐｅｏｐｌｅ", "people\u00a0"])
def test_case_width_and_blanks_make_no_other_account(filled: Ledger, name: str) -> None:
    """One limit holds for all ways to type a name."""
    assert filled.account(name.replace("\u00a0", " ")).limit == filled.account("people").limit
    assert filled.account("people").limit is not None


def test_a_changed_reservation_is_not_charged(filled: Ledger) -> None:
    """A reservation made cheaper in the file raises when it is charged."""
    held = filled.reservations()[0]
    _tamper(filled.path, "UPDATE reservations SET amount = 1")
    with pytest.raises(VerificationError, match="seal"):
        filled.charge(held, artefact_sha256=HASH)


def test_an_orphan_is_found(filled: Ledger) -> None:
    """A staged artefact that belongs to no charge is found."""
    _tamper(filled.path, "UPDATE artefacts SET number = 77")
    with pytest.raises(VerificationError, match="row 77 of the table artefacts"):
        filled.verify()


def test_a_reservation_walks_the_chain_once(
    reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole chain, since no sum beside it could be trusted; but not a second time."""
    from sherd.budget import accounts

    walk, walks = accounts.walk, 0

    def counted(db: sqlite3.Connection, *, strict: bool = False) -> object:
        nonlocal walks
        walks += 1
        return walk(db, strict=strict)

    monkeypatch.setattr(accounts, "walk", counted)
    reserve("0.1")
    assert walks == 1
