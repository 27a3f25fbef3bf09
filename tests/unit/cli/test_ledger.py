from __future__ import annotations

import json
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from sherd.budget import Amount, Ledger, Reservation
from sherd.cli import run
from sherd.cli.ledger import ledger as group
from sherd.errors import BudgetError, UsageError, VerificationError
from sherd.guarantees.concentrated import rho_of
from sherd.release.bundle import MANIFEST, digest

if TYPE_CHECKING:
    from pathlib import Path

HASH = "f" * 64


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A ledger at the place the environment names."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    return Ledger(tmp_path / "ledger.db")


def _run(*words: str) -> Result:
    return CliRunner().invoke(group, words, catch_exceptions=False)


def _reserve(book: Ledger, amount: str, note: str = "") -> Reservation:
    return book.reserve(
        population="people",
        amount=Amount(amount),
        plan_hash=HASH,
        schema_hash=HASH,
        method="dp",
        note=note,
    )


def test_show_as_json(book: Ledger) -> None:
    """The accounts, reservations and head of the whole ledger, as JSON."""
    book.set_limit("people", Amount(1))
    entry = book.charge(_reserve(book, "0.25"), artefact_sha256=HASH)
    held = _reserve(book, "0.5")
    found = json.loads(_run("show", "--json").output)
    (account,) = found["accounts"]
    assert account["columns"]["dp"]["spent"] == "1/4"
    del account["columns"], account["delta"], account["epsilon_of_rho"]
    assert account == {
        "population": "people", "limit": 1.0, "spent": 0.25, "reserved": 0.5, "left": 0.25
    }  # fmt: skip
    assert (found["rows"], found["head"]) == (2, entry.hash)
    assert [one["id"] for one in found["reservations"]] == [held.id]
    assert found["pending"] == []
    assert "entries" not in found


def test_show_says_what_rho_means_as_epsilon(book: Ledger, tmp_path: Path) -> None:
    """At the account's δ: two releases of (1, 1e-9) come to less than 2, and to no less than 1."""
    release = ["protect", ":nursery", "-m", "dp-graph", "-e", "1", "--delta", "1e-9"]
    release += ["--choice", "workload", "--marginal", "parents,class", "--population", "pupils"]
    for name in ("one", "two"):
        assert run([*release, "-o", str(tmp_path / name)]) == 0
    account = book.account("pupils")
    assert account.columns["dp"].spent == 2
    assert account.columns["rho"].spent == 2 * rho_of(Fraction(1), Fraction(1, 10**9))
    (told,) = [line for line in _run("show").output.splitlines() if "with a ρ" in line]
    assert "2e-09" in told
    (shown,) = json.loads(_run("show", "--json").output)["accounts"]
    assert 1.2 < shown["epsilon_of_rho"] < 1.6
    book.set_limit("pupils", account.columns["rho"].spent, of="rho")
    assert run([*release, "-o", str(tmp_path / "three")]) == 3
    assert not (tmp_path / "three").exists()


def test_show_one_population(book: Ledger) -> None:
    """One population's account comes with its entries and only its reservations."""
    book.set_limit("people", Amount(1))
    book.set_limit("others", Amount(2))
    _reserve(book, "0.5")
    found = json.loads(_run("show", "others", "--json").output)
    assert [account["population"] for account in found["accounts"]] == ["others"]
    assert [entry["amount"] for entry in found["entries"]] == [2.0]
    assert found["reservations"] == []


def test_show_in_a_pipe(book: Ledger, tmp_path: Path) -> None:
    """In a pipe each table is tab-separated lines under its title, nothing cut off."""
    book.set_limit("people", Amount(1))
    (tmp_path / "staged").touch()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        book.charge(
            _reserve(book, "0.25", "a note"),
            artefact_sha256=HASH,
            staged=tmp_path / "staged",
            final=tmp_path / "out",
            finish=stop,
        )
    held = _reserve(book, "0.5")
    lines = _run("show", "people").output.splitlines()
    assert "people\t1\t0.25\t0.5\t0.25" in lines
    assert any(line.endswith(f"\tdp\t{HASH[:12]}\t{HASH[:12]}\ta note") for line in lines)
    assert any(line.startswith(f"{held.id}\tpeople\t0.5\t") for line in lines)
    assert f"2\t{tmp_path / 'staged'}\t{tmp_path / 'out'}" in lines


def test_show_to_a_person(
    book: Ledger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a terminal the table is drawn, and a name in brackets is not taken for markup."""
    book.set_limit("[bold]people", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    group.main(["show"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "[bold]people" in shown
    assert "none" in shown
    assert "│" in shown or "|" in shown


def test_show_nothing(book: Ledger) -> None:
    """An empty ledger says so."""
    assert "nothing has been spent" in _run("show").output


def test_show_frees_the_dead(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Showing frees what dead runs reserved."""
    _reserve(book, "1")
    monkeypatch.setattr("sherd.budget.rows.abandoned", lambda _: True)
    assert json.loads(_run("show", "--json").output)["reservations"] == []
    assert book.reservations() == []


def test_an_unknown_population(book: Ledger) -> None:
    """A mistyped name is refused with the near one; with none near, with what to run."""
    book.set_limit("people", Amount(1))
    with pytest.raises(UsageError, match="did you mean 'people'"):
        _run("show", "poeple")
    with pytest.raises(UsageError, match="sherd ledger show"):
        _run("show", "zzz")


@pytest.mark.parametrize("words", [["show"], ["verify"], ["free", "x"], ["recover"]])
def test_looking_makes_no_ledger(tmp_path: Path, words: list[str]) -> None:
    """A ledger that is not there is an error for commands that only look, and is not made."""
    path = tmp_path / "none.db"
    with pytest.raises(UsageError, match="no ledger yet"):
        _run(*words, "--ledger", str(path))
    assert not path.exists()


def test_verify(book: Ledger) -> None:
    """Verifying prints the number of rows and the head, for people and as JSON."""
    book.set_limit("people", Amount(1))
    head = book.head()[1]
    assert _run("verify").output == f"1 rows, all as they were written; head {head}\n"
    found = json.loads(_run("verify", "--json").output)
    assert found == {"ledger": str(book.path), "rows": 1, "head": head, "verified": True}
    with book._writing() as db:
        db.execute("UPDATE entries SET note = 'changed'")
    with pytest.raises(VerificationError, match="row 1"):
        _run("verify")


def test_set_limit(tmp_path: Path) -> None:
    """Setting a limit makes the ledger where needed; "none" removes the limit."""
    path = str(tmp_path / "new" / "ledger.db")
    shown = _run("set-limit", "people", "1.5", "--ledger", path)
    assert shown.output == "the limit of 'people' is 1.5; 1.5 left\n"
    assert Ledger(path).account("people").limit == Amount("1.5")
    assert "no limit" in _run("set-limit", "people", "None", "--ledger", path).output
    assert Ledger(path).account("people").limit is None
    found = json.loads(_run("set-limit", "people", "2", "--ledger", path, "--json").output)
    assert (found["limit"], found["overspent"]) == (2.0, False)
    with pytest.raises(UsageError):
        _run("set-limit", "people", "much", "--ledger", path)


def test_a_limit_below_the_spent_is_said(book: Ledger) -> None:
    """A limit below what is spent is set, and said to stop everything."""
    book.charge(_reserve(book, "1"), artefact_sha256=HASH)
    assert "nothing more can be spent" in _run("set-limit", "people", "0.5").stderr
    assert json.loads(_run("set-limit", "people", "0.5", "--json").output)["overspent"] is True
    with pytest.raises(BudgetError):
        _reserve(book, "0.1")


def test_free(book: Ledger) -> None:
    """A reservation is given back by its id; an unknown one is refused."""
    one, two = _reserve(book, "1"), _reserve(book, "2")
    assert _run("free", one.id).output == "freed 1 of 'people'\n"
    assert json.loads(_run("free", two.id, "--json").output) == {"freed": two.id, "amount": 2.0}
    assert book.reservations() == []
    with pytest.raises(UsageError, match="no such reservation"):
        _run("free", one.id)


def _leave(book: Ledger, folder: Path) -> Path:
    """A release that was paid for and left staged; its place."""
    staged, final = folder / ".staged", folder / "out"
    staged.mkdir()
    (staged / "data.csv").write_text("age\n1\n")
    files = {"data.csv": {"sha256": digest(staged / "data.csv")}}
    (staged / MANIFEST).write_text(json.dumps({"files": files}))

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        book.charge(
            _reserve(book, "1"),
            artefact_sha256=digest(staged / MANIFEST),
            staged=staged,
            final=final,
            finish=die,
        )
    return final


def test_recover(book: Ledger, tmp_path: Path) -> None:
    """A staged release is published once, whole, at no further cost."""
    final = _leave(book, tmp_path)
    assert not final.exists()
    assert _run("recover").output == f"published {final}\n"
    assert (final / "data.csv").read_text() == "age\n1\n"
    assert _run("recover").output == "nothing was left unpublished\n"
    assert json.loads(_run("recover", "--json").output) == {"published": []}
    assert book.account("people").spent == Amount(1)


def test_recover_refuses_a_changed_file(book: Ledger, tmp_path: Path) -> None:
    """A release of which any file was changed after the charge is not published."""
    final = _leave(book, tmp_path)
    (book.pending()[0].staged / "data.csv").write_bytes(b"other rows")
    with pytest.raises(VerificationError, match="not the one that was paid for"):
        _run("recover")
    assert not final.exists()
