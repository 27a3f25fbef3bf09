from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from sherd.budget import Amount, Ledger, Reservation, rows
from sherd.budget.entries import GENESIS
from sherd.errors import BudgetError, StorageError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

Reserve = Callable[..., Reservation]
HASH = "a" * 64


def test_a_new_population_has_nothing(ledger: Ledger) -> None:
    """A population nobody has spent from has no limit, and is not listed."""
    account = ledger.account("people")
    assert (account.limit, account.left) == (None, None)
    assert not account.spent
    assert not account.reserved
    assert ledger.accounts() == []
    assert ledger.entries() == []
    assert ledger.head() == (0, GENESIS)
    assert ledger.verify() == 0


def test_reserve_then_charge(ledger: Ledger, reserve: Reserve, artefact: str) -> None:
    """Reserved budget counts at once; the charge replaces it and carries the release."""
    ledger.set_limit("people", Amount(1))
    reservation = reserve("0.75", note="first")
    assert ledger.reservations() == [reservation]
    assert ledger.account("people").left == Amount("0.25")
    entry = ledger.charge(reservation, artefact_sha256=artefact)
    account = ledger.account("people")
    assert (account.spent, account.reserved) == (Amount("0.75"), Amount(0))
    assert account.left == Amount("0.25")
    assert ledger.entries()[-1] == entry
    assert (entry.kind, entry.index, entry.artefact, entry.note) == ("charge", 2, artefact, "first")
    assert (entry.method, entry.reservation) == ("dp", reservation.id)
    assert datetime.fromisoformat(entry.time).utcoffset() == timedelta(0)
    assert ledger.head() == (2, entry.hash)
    assert ledger.reservations() == []
    assert ledger.verify() == 2


def test_refuses_what_is_not_left(ledger: Ledger, reserve: Reserve) -> None:
    """Spent and reserved together may reach the limit and not pass it by a micro-epsilon."""
    ledger.set_limit("people", Amount(1))
    ledger.charge(reserve("0.5"), artefact_sha256=HASH)
    reserve("0.25")
    with pytest.raises(BudgetError, match=r"at most 0\.25.*limit 1 after 0\.5 spent and 0\.25"):
        reserve("0.250001")
    reserve("0.25")
    assert ledger.account("people").left == Amount(0)


def test_populations_are_apart(ledger: Ledger, reserve: Reserve) -> None:
    """One population's spending leaves another's account and entries alone."""
    ledger.set_limit("b", Amount(1))
    ledger.charge(reserve("1", population="a"), artefact_sha256=HASH)
    reserve("1", population="c")
    assert [account.population for account in ledger.accounts()] == ["a", "b", "c"]
    assert ledger.account("b").left == Amount(1)
    assert [entry.kind for entry in ledger.entries("a")] == ["charge"]
    assert ledger.entries("c") == []


def test_an_account_without_limit_ends_where_the_file_does(
    ledger: Ledger, reserve: Reserve
) -> None:
    """Without a limit the largest number the file can hold is the limit."""
    ledger.charge(reserve("9000000000000"), artefact_sha256=HASH)
    with pytest.raises(BudgetError, match="does not allow"):
        reserve("9000000000000")


def test_a_freed_reservation_gives_back_and_cannot_be_charged(
    ledger: Ledger, reserve: Reserve
) -> None:
    """Freeing gives the budget back, may be repeated, and ends the reservation."""
    ledger.set_limit("people", Amount(1))
    reservation = reserve("1")
    ledger.free(reservation)
    ledger.free(reservation)
    assert ledger.account("people").left == Amount(1)
    with pytest.raises(BudgetError, match="already freed"):
        ledger.charge(reservation, artefact_sha256=HASH)
    assert not ledger.account("people").spent


def test_a_charge_is_never_repeated_or_refunded(ledger: Ledger, reserve: Reserve) -> None:
    """A charged reservation can be neither charged again nor freed."""
    reservation = reserve("1")
    assert not ledger.is_charged(reservation)
    ledger.charge(reservation, artefact_sha256=HASH)
    assert ledger.is_charged(reservation)
    with pytest.raises(BudgetError, match="already charged"):
        ledger.charge(reservation, artefact_sha256=HASH)
    with pytest.raises(BudgetError, match="was charged"):
        ledger.free(reservation)
    assert ledger.account("people").spent == Amount(1)


def test_a_lowered_limit_counts_at_the_charge(ledger: Ledger, reserve: Reserve) -> None:
    """No charge ever takes the sum past the limit in force; the run may free and end."""
    reservation = reserve("1")
    ledger.set_limit("people", Amount("0.5"))
    assert ledger.account("people").left == Amount(0)
    with pytest.raises(BudgetError, match="lowered meanwhile"):
        ledger.charge(reservation, artefact_sha256=HASH)
    ledger.free(reservation)
    assert ledger.account("people").left == Amount("0.5")


def test_a_limit_below_the_spent_stops_everything(ledger: Ledger, reserve: Reserve) -> None:
    """Lowering below what is spent is allowed; nothing is left until it is raised or removed."""
    ledger.charge(reserve("1"), artefact_sha256=HASH)
    ledger.set_limit("people", Amount("0.5"))
    assert ledger.account("people").left == Amount(0)
    with pytest.raises(BudgetError):
        reserve("0.000001")
    ledger.set_limit("people", None)
    reserve("5")
    assert [entry.amount for entry in ledger.entries()] == [Amount(1), Amount("0.5"), None]
    assert ledger.verify() == 3


def _try_all(ledger: Ledger, **changed: str) -> None:
    given: dict[str, Any] = {
        "population": "people", "method": "dp", "plan_hash": HASH, "schema_hash": HASH
    }  # fmt: skip
    ledger.reserve(amount=Amount(1), **{**given, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"population": ""},
        {"population": "x" * 201},
        {"population": "a\nb"},
        {"population": 3},
        {"method": ""},
        {"note": "x" * 1001},
        {"plan_hash": "short"},
        {"schema_hash": HASH.upper()},
        {"schema_hash": None},
    ],
)
def test_refuses_to_note_nonsense(ledger: Ledger, changed: dict[str, str]) -> None:
    """Names are short printable text and hashes are sha256, or nothing is reserved."""
    with pytest.raises(UsageError):
        _try_all(ledger, **changed)
    assert ledger.reservations() == []


def test_refuses_a_charge_without_an_artefact(
    ledger: Ledger, reserve: Reserve, tmp_path: Path
) -> None:
    """A charge names a sha256 and either both places or none, and what is staged exists."""
    reservation = reserve("1")
    with pytest.raises(UsageError, match="artefact_sha256"):
        ledger.charge(reservation, artefact_sha256="")
    with pytest.raises(UsageError, match="both staged and final"):
        ledger.charge(reservation, artefact_sha256=HASH, staged=tmp_path)
    with pytest.raises(StorageError, match="is missing"):
        ledger.charge(
            reservation, artefact_sha256=HASH, staged=tmp_path / "no", final=tmp_path / "out"
        )
    with pytest.raises(UsageError):
        ledger.set_limit("", None)
    assert not ledger.account("people").spent


def test_reserving_frees_on_any_exception(ledger: Ledger) -> None:
    """An error, an interrupt and a block that forgot to charge all give the budget back."""

    def run(error: type[BaseException] | None) -> None:
        with ledger.reserving(
            population="people", amount=Amount(1), plan_hash=HASH, schema_hash=HASH, method="dp"
        ):
            assert ledger.account("people").reserved == Amount(1)
            if error is not None:
                raise error

    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            run(error)
        assert ledger.reservations() == []
    run(None)
    assert ledger.reservations() == []


def test_reserving_keeps_a_charge(ledger: Ledger) -> None:
    """An error after the charge changes nothing about it."""

    def run() -> None:
        with ledger.reserving(
            population="people", amount=Amount(1), plan_hash=HASH, schema_hash=HASH, method="dp"
        ) as reservation:
            ledger.charge(reservation, artefact_sha256=HASH)
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        run()
    assert ledger.account("people").spent == Amount(1)


def test_the_error_of_the_block_comes_through(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where freeing fails too, the block's own error is raised, with a note about it."""

    def broken(_id: str) -> bool:
        raise StorageError("disk gone")

    monkeypatch.setattr(ledger, "_free", broken)
    with (
        pytest.raises(ValueError, match="mine") as caught,
        ledger.reserving(
            population="people", amount=Amount(1), plan_hash=HASH, schema_hash=HASH, method="dp"
        ),
    ):
        raise ValueError("mine")
    assert "disk gone" in caught.value.__notes__[0]


def _pretend(ledger: Ledger, reservation: Reservation, **changed: object) -> None:
    """Write the reservation as if another process held it."""
    other = replace(reservation, process=replace(reservation.process, **changed))  # type: ignore[arg-type]
    with ledger._writing() as db:
        rows.delete_reservation(db, reservation.id)
        rows.insert_reservation(db, other)


def test_frees_what_the_dead_reserved(ledger: Ledger, reserve: Reserve) -> None:
    """A reservation whose pid now belongs to a later process blocks nobody."""
    ledger.set_limit("people", Amount(1))
    first = reserve("1")
    _pretend(ledger, first, started="1")
    second = reserve("1")
    assert ledger.reservations() == [second]
    _pretend(ledger, second, boot="an earlier one")
    assert ledger.account("people").left == Amount(1)
    assert ledger.free_abandoned() == []
    with pytest.raises(BudgetError, match="already freed"):
        ledger.charge(second, artefact_sha256=HASH)


@pytest.mark.parametrize("how", ["freed", "its process is gone", "charged"])
def test_deletes_what_was_staged_and_not_paid_for(
    ledger: Ledger, reserve: Reserve, tmp_path: Path, how: str
) -> None:
    """A reservation knows its folder before that is made, so that no death leaves it behind."""
    staged = tmp_path / ".out.staged-1"
    reservation = reserve("1", staging=staged)
    staged.mkdir()
    (staged / "data.csv").write_text("unpaid")
    if how == "charged":
        ledger.charge(reservation, artefact_sha256=HASH, staged=staged, final=tmp_path / "out")
        assert (tmp_path / "out" / "data.csv").read_text() == "unpaid"
    elif how == "freed":
        ledger.free(reservation)
    else:
        _pretend(ledger, reservation, started="1")
        assert len(ledger.free_abandoned()) == 1
    assert not staged.exists()
    again = reserve("1", staging=tmp_path / "never made")
    ledger.free(again)


def test_keeps_what_cannot_be_seen_for_a_day(
    ledger: Ledger, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reservation of another container is kept for a day and then freed."""
    _pretend(ledger, reserve("1"), namespace="pid:[1]")
    assert ledger.free_abandoned() == []
    monkeypatch.setattr(rows, "UNSEEN_HOURS", -1)
    assert [freed.amount for freed in ledger.free_abandoned()] == [Amount(1)]


def test_a_clock_that_goes_back_is_harmless(
    ledger: Ledger, reserve: Reserve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows keep the order they were written in whatever the clock says."""
    ledger.charge(reserve("1"), artefact_sha256=HASH)
    early = datetime(1999, 1, 1, tzinfo=UTC).isoformat()
    monkeypatch.setattr(rows, "now", lambda: early)
    ledger.charge(reserve("2"), artefact_sha256=HASH)
    monkeypatch.undo()
    ledger.charge(reserve("3"), artefact_sha256=HASH)
    assert [entry.amount for entry in ledger.entries()] == [Amount(1), Amount(2), Amount(3)]
    assert ledger.entries()[1].time == early
    assert ledger.verify() == 3


def test_knows_its_own_heads(ledger: Ledger, reserve: Reserve) -> None:
    """Every head the ledger ever had is held; the head of another ledger is not."""
    heads = [ledger.head()[1]]
    for _ in range(3):
        ledger.charge(reserve("1"), artefact_sha256=HASH)
        heads.append(ledger.head()[1])
    assert all(ledger.holds(head) for head in heads)
    assert len(set(heads)) == 4
    assert not ledger.holds("f" * 64)


def test_threads_share_a_ledger(ledger: Ledger, reserve: Reserve) -> None:
    """Eight threads of one process race for three shares: three win."""
    ledger.set_limit("people", Amount(1))
    outcomes: list[str] = []

    def run() -> None:
        try:
            ledger.charge(reserve("0.33"), artefact_sha256=HASH)
            outcomes.append("won")
        except BudgetError:
            outcomes.append("refused")

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused"] * 5 + ["won"] * 3
    assert ledger.account("people").spent == Amount("0.99")
    assert ledger.verify() == 4


def test_values_as_data(ledger: Ledger, reserve: Reserve) -> None:
    """Accounts, entries and reservations become plain data with amounts in epsilon."""
    ledger.set_limit("people", Amount(1))
    reservation = reserve("0.25")
    told = ledger.account("people").as_data()
    assert {key: told[key] for key in ("population", "limit", "spent", "reserved", "left")} == {
        "population": "people",
        "limit": 1.0,
        "spent": 0.0,
        "reserved": 0.25,
        "left": 0.75,
    }
    assert ledger.account("nobody").as_data()["left"] is None
    assert reservation.as_data()["amount"] == 0.25
    assert ledger.entries()[0].as_data()["amount"] == 1.0
    ledger.set_limit("people", None)
    assert ledger.entries()[1].as_data()["amount"] is None
