"""Every door books: what Python protects is charged as on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.budget.ledger import Ledger
from sherd.errors import BudgetError, TableError, UsageError
from sherd.release.charging import MOST_COST, population_of
from sherd.release.method import REAL_SPEND
from sherd.release.protect import protect_to

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table({"x": [float(i) for i in range(30)]})
ATTRIBUTES: dict[str, Any] = {"x": {"type": "number", "domain": [0, 30]}}
SCHEMA = sherd.Schema.from_data({"population": "people", "attributes": ATTRIBUTES})
PLAN = sherd.Plan(method="dp-um", epsilon=0.5, k=5)


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger that the environment names."""
    path = tmp_path / "books" / "ledger.db"
    monkeypatch.setenv("SHERD_LEDGER", str(path))
    return Ledger(path)


def test_protect_books_in_the_ledger_that_the_environment_names(
    book: Ledger, tmp_path: Path
) -> None:
    """In memory and to a folder; only ``ledger=None`` keeps none."""
    release = sherd.protect(TABLE, SCHEMA, PLAN)
    assert release.manifest["budget"] == {
        "recorded": True, "population": "people", "spent": "0.5"
    }  # fmt: skip
    protect_to(tmp_path / "out", lambda: TABLE, SCHEMA, PLAN)
    assert str(book.account("people").spent) == "1"
    sherd.protect(TABLE, SCHEMA, PLAN, ledger=None)
    assert str(book.account("people").spent) == "1"
    book.set_limit("people", sherd.Amount("1.2"))
    with pytest.raises(BudgetError):
        sherd.protect(TABLE, SCHEMA, PLAN)


def test_a_population_is_never_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named where nothing is booked, it is refused."""
    for given in ({"ledger": None}, {}):
        monkeypatch.setenv("SHERD_LEDGER", "none")
        with pytest.raises(UsageError, match="no ledger is kept"):
            sherd.protect(TABLE, SCHEMA, PLAN, population="people", **given)


def test_a_population_that_overrides_the_schema_says_so(book: Ledger) -> None:
    """To the owner, with both names."""
    release = sherd.protect(TABLE, SCHEMA, PLAN, population="staff")
    (told,) = [one for one in release.findings if one.name == "population"]
    assert "instead of 'people'" in told.meaning
    assert book.account("staff").spent == sherd.Amount("0.5")
    same = sherd.protect(TABLE, SCHEMA, PLAN, population="PEOPLE")
    assert not [one for one in same.findings if one.name == "population"]


def test_a_changed_domain_opens_no_fresh_account_where_a_unit_is_named() -> None:
    """Nor does a renamed column; without unit and population the schema's hash is all there is."""
    one: dict[str, Any] = {**ATTRIBUTES, "who": {"role": "identifier"}}
    two: dict[str, Any] = {
        "y": {"type": "number", "domain": [0, 31]}, "who": {"role": "identifier"}
    }  # fmt: skip
    named = [
        population_of(sherd.Schema.from_data({"unit": "who", "attributes": given}), None)
        for given in (one, two)
    ]
    assert named == ["unit who", "unit who"]
    bare = [
        population_of(sherd.Schema.from_data({"attributes": given}), None) for given in (one, two)
    ]
    assert bare[0] != bare[1]


def test_the_claim_and_the_real_spend_are_both_booked(book: Ledger) -> None:
    """Under the paper's promise recomputed clusters cost more than the plan says."""
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=3, guarantee="paper")
    release = sherd.protect(TABLE, SCHEMA, plan)
    real = next(float(one.value) for one in release.findings if one.name == REAL_SPEND)
    columns = book.account("people").columns
    assert columns["idp"].spent == 1
    assert columns["dp"].spent == 0
    assert real > 1
    assert float(columns["cost"].spent) == pytest.approx(real, rel=1e-6)
    book.set_limit("people", sherd.Amount(real + 1), of="cost")
    with pytest.raises(BudgetError, match="really spends more"):
        sherd.protect(TABLE, SCHEMA, plan)


@pytest.mark.parametrize("values", [[3.0] * 10, [2.0] * 5 + [3.0] * 5])
def test_a_column_without_any_noise_is_released_and_booked_at_the_most(
    book: Ledger, tmp_path: Path, values: list[float]
) -> None:
    """Whether all clusters hold equal values must not decide whether a run is refused."""
    plan = sherd.Plan(method="idp-cbls", epsilon=0.5, k=5, guarantee="paper")
    table = pa.table({"x": values})
    sherd.protect(table, SCHEMA, plan)
    protect_to(tmp_path / "out", lambda: table, SCHEMA, plan)
    columns = book.account("people").columns
    assert columns["idp"].spent == 1
    assert columns["cost"].spent == 2 * MOST_COST
    assert sherd.verify(tmp_path / "out").passed


def test_a_refusal_is_booked_as_a_look_and_says_no_count(book: Ledger) -> None:
    """A domain that moves tells nothing but that it does not fit, and not for ever."""
    book.set_limit("people", 3, of="looks")
    for top in (5, 10, 20):
        moved = {"x": {"type": "number", "domain": [0, top], "outside": "refuse"}}
        schema = sherd.Schema.from_data({"population": "people", "attributes": moved})
        with pytest.raises(TableError) as told:
            sherd.protect(TABLE, schema, PLAN)
        assert not any(sign.isdigit() for sign in str(told.value))
    assert book.account("people").columns["looks"].spent == 3
    assert book.account("people").spent == sherd.Amount(0)
    with pytest.raises(BudgetError, match="refused runs"):
        sherd.protect(TABLE, SCHEMA, PLAN)


def test_releases_without_an_epsilon_can_be_forbidden(book: Ledger) -> None:
    """They are counted, and a limit of none of them holds."""
    schema = sherd.Schema.from_data(
        {
            "population": "people",
            "attributes": {**ATTRIBUTES, "s": {"type": "category", "role": "sensitive"}},
        }
    )
    table = TABLE.append_column("s", pa.array(["a", "b", "c"] * 10))
    plan = sherd.Plan(method="anatomy", l=2)
    sherd.protect(table, schema, plan)
    assert book.account("people").columns["none"].spent == 1
    book.set_limit("people", 1, of="none")
    with pytest.raises(BudgetError, match="releases without an ε"):
        sherd.protect(table, schema, plan, settings=sherd.Settings(again=True))


def test_rho_and_delta_of_a_plan_are_booked(book: Ledger) -> None:
    """Beside its epsilon, exactly; a limit on rho holds before data is read."""
    from fractions import Fraction

    from sherd.guarantees.concentrated import rho_of

    schema = sherd.Schema.from_data(
        {
            "population": "people",
            "missing": "recode",
            "attributes": {
                name: {"type": "category", "values": ["a", "b"], "recode": "a"}
                for name in ("c", "d")
            },
        }
    )
    table = pa.table({"c": ["a", "b"] * 50, "d": ["a", "a", "b", "b"] * 25})
    plan = sherd.Plan(method="dp-graph", epsilon=1.0, delta=1e-6)
    sherd.protect(table, schema, plan)
    account = book.account("people")
    assert account.columns["rho"].spent == rho_of(Fraction(1), Fraction(1, 10**6))
    assert account.delta == Fraction(1, 10**6)
    book.set_limit("people", account.columns["rho"].spent, of="rho")
    with pytest.raises(BudgetError, match="zero-concentrated"):
        sherd.protect(table, schema, plan)
