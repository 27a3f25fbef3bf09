"""Sums that are never added to each other, each with a limit of its own; looks; old files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

from sherd.budget import storage
from sherd.budget.amount import Amount
from sherd.budget.entries import COLUMNS, digest
from sherd.budget.ledger import Ledger
from sherd.errors import BudgetError, UsageError, VerificationError

if TYPE_CHECKING:
    from pathlib import Path

HASH = "ab" * 32


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger(tmp_path / "ledger.db")


def _charge(book: Ledger, amount: str = "1", *, cost: Amount | None = None, **more: Any) -> None:
    given = {"population": "people", "method": "dp", "plan_hash": HASH, "schema_hash": HASH}
    held = book.reserve(amount=Amount(amount), **{**given, **more})
    book.charge(held, artefact_sha256=HASH, cost=cost)


def _spent(book: Ledger) -> dict[str, Fraction]:
    columns = book.account("people").columns
    assert tuple(columns) == COLUMNS
    return {name: column.spent for name, column in columns.items() if column.spent}


def test_kinds_of_privacy_are_not_added_up(book: Ledger) -> None:
    """Differential, individual and no privacy, and what was really spent, each for itself."""
    _charge(book, "1")
    _charge(book, "0.5", measure="idp", cost=Amount(471))
    _charge(book, "0", measure="none")
    _charge(book, "0", measure="none")
    assert _spent(book) == {
        "dp": 1, "idp": Fraction(1, 2), "none": 2, "cost": 472
    }  # fmt: skip
    assert book.verify() == 4


@pytest.mark.parametrize(
    ("of", "limit", "first", "second"),
    [
        ("dp", "1", {}, {"measure": "dp"}),
        ("idp", "1", {"measure": "idp"}, {"measure": "idp"}),
        ("epsilon", "1", {"measure": "idp"}, {"measure": "idp"}),
        ("none", "1", {"measure": "none"}, {"measure": "none"}),
        ("rho", "0.125", {"rho": Fraction(1, 8)}, {"rho": Fraction(1, 10**9)}),
        ("cost", "1", {}, {"amount": "0.1"}),
    ],
)
def test_every_column_can_be_limited(
    book: Ledger, of: str, limit: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    """And a limit holds for its own column only."""
    book.set_limit("people", Amount(limit), of=of)
    _charge(book, **first)
    with pytest.raises(BudgetError, match="does not allow this"):
        _charge(book, **second)
    other: dict[str, Any] = (
        {"measure": "idp"} if second.get("measure") != "idp" else {"measure": "none"}
    )
    if of not in ("cost", "rho"):
        _charge(book, "0.5", **other)
    assert book.verify() > 1


def test_none_forbids_releases_without_an_epsilon(book: Ledger) -> None:
    """A limit of 0."""
    book.set_limit("people", 0, of="none")
    with pytest.raises(BudgetError, match="releases without an ε"):
        _charge(book, "0", measure="none")
    _charge(book, "1")


def test_a_cost_above_its_limit_is_not_charged(book: Ledger) -> None:
    """It is known after the run only: the charge refuses, and nothing is spent."""
    book.set_limit("people", Amount(100), of="cost")
    with pytest.raises(BudgetError, match="really spends more") as refused:
        _charge(book, "1", cost=Amount(471))
    assert "471" not in str(refused.value), "it follows from the cells"
    assert _spent(book) == {"looks": 1}, "the refusal tells of the cells, too"


def test_rho_is_exact_and_its_epsilon_is_told(book: Ledger) -> None:
    """Three thirds are 1; what that means as (ε, δ) is worked out by the certified conversion."""
    for _ in range(3):
        _charge(book, "1", rho=Fraction(1, 3), delta=Fraction(1, 10**6))
    account = book.account("people")
    assert account.columns["rho"].spent == 1
    assert account.delta == Fraction(3, 10**6)
    converted = account.epsilon_of_rho(Fraction(1, 10**6))
    # Never above the textbook bound ρ + 2·√(ρ·ln(1/δ)).
    assert 1 < converted < 1 + 2 * (6 * 2.302585092994046) ** 0.5


def test_a_look_is_booked_and_can_be_limited(book: Ledger) -> None:
    """A refusal is an output: after so many, nothing is read any more."""
    book.set_limit("people", 2, of="looks")
    given: dict[str, Any] = {
        "population": "people", "method": "dp", "plan_hash": HASH, "schema_hash": HASH
    }  # fmt: skip
    for _ in range(2):
        with book.reserving(amount=Amount(1), **given) as held:
            book.look(held, note="TableError")
    assert [entry.kind for entry in book.entries()] == ["limit", "look", "look"]
    assert _spent(book) == {"looks": 2}
    with pytest.raises(BudgetError, match="refused runs"):
        book.reserve(amount=Amount(1), **given)


def test_a_name_that_looks_like_a_slip_asks(book: Ledger) -> None:
    """Until its account is opened by name."""
    _charge(book, population="patients")
    with pytest.raises(UsageError, match="one called 'patients'"):
        _charge(book, population="patents")
    _charge(book, population="Patients")
    book.set_limit("patents", None)
    _charge(book, population="patents")
    assert [account.population for account in book.accounts()] == ["patents", "patients"]


def test_unknown_columns_and_measures_are_refused(book: Ledger) -> None:
    """By name."""
    with pytest.raises(UsageError, match="no such column"):
        book.set_limit("people", Amount(1), of="zeta")
    with pytest.raises(UsageError, match="measure"):
        _charge(book, measure="zeta")
    with pytest.raises(UsageError, match="whole number"):
        book.set_limit("people", Amount("0.5"), of="looks")


OLD = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, time TEXT, kind TEXT, population TEXT,
    amount INTEGER, method TEXT, plan_hash TEXT, schema_hash TEXT, artefact TEXT, note TEXT,
    reservation TEXT UNIQUE, previous TEXT, hash TEXT);
CREATE INDEX entries_by_population ON entries (population, number);
CREATE TABLE head (one INTEGER PRIMARY KEY, number INTEGER, hash TEXT);
CREATE TABLE accounts (population TEXT PRIMARY KEY, ceiling INTEGER, spent INTEGER);
CREATE TABLE reservations (id TEXT PRIMARY KEY, population TEXT);
CREATE TABLE artefacts (number INTEGER PRIMARY KEY, staged TEXT, final TEXT, pid INTEGER,
    started TEXT, boot TEXT, namespace TEXT, seal TEXT, published INTEGER);
PRAGMA application_id = {application};
PRAGMA user_version = 1;
"""


def _old(path: Path) -> None:
    """A ledger as version 1 wrote it: a limit and two charges."""
    rows = [
        ("limit", 3_000_000, "", None),
        ("charge", 1_000_000, "dp-um", "one"),
        ("charge", 500_000, "idp-ls", "two"),
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(OLD.format(application=storage.APPLICATION))
        last = "0" * 64
        for number, (kind, amount, method, reservation) in enumerate(rows, 1):
            row = (number, "2026-01-01", kind, "people", amount, method, "", "", "", "",
                   reservation, last)  # fmt: skip
            last = digest(row)
            db.execute("INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", (*row, last))
        db.execute("INSERT INTO head VALUES (1, 3, ?)", (last,))
        db.execute("INSERT INTO accounts VALUES ('people', 3000000, 1500000)")


def test_a_ledger_of_version_1_is_read_and_carried_on(tmp_path: Path) -> None:
    """Its rows keep their hashes, its sums go to their columns, its limit holds for each."""
    _old(tmp_path / "old.db")
    book = Ledger(tmp_path / "old.db")
    head = book.head()
    assert _spent(book) == {"dp": 1, "idp": Fraction(1, 2), "cost": Fraction(3, 2)}
    assert book.account("people").limit == Amount(3)
    _charge(book, "2")
    assert book.verify() == 4
    assert book.holds(head[1])
    with pytest.raises(BudgetError):
        _charge(book, "0.1")


def test_a_changed_row_of_version_1_is_found_after_the_move(tmp_path: Path) -> None:
    """Moving to new tables must not wash a forgery clean."""
    path = tmp_path / "old.db"
    _old(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("UPDATE entries SET amount = 1 WHERE number = 2")
    with pytest.raises(VerificationError, match="row 2"):
        Ledger(path).account("people")
