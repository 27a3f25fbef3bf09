"""An occasion is charged once, whoever tries again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from sherd.budget.amount import Amount
from sherd.budget.ledger import Ledger
from sherd.errors import BudgetError, OutputExistsError
from sherd.release.charging import Occasion
from sherd.release.plan import Plan
from sherd.release.protect import protect_to
from sherd.tables.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path

HASH = "ab" * 32
SCHEMA = Schema.from_data({"attributes": {"a": {"type": "integer", "domain": ["0", "9"]}}})
PLAN = Plan(method="dp-um", epsilon=0.5, k=3)
TABLE = pa.table({"a": [1, 2, 3, 4, 5, 6]})


def reserve(ledger: Ledger) -> object:
    """A reservation for the occasion."""
    return ledger.reserve(
        population="p", amount=Amount(1), plan_hash=HASH, schema_hash=HASH, method="dp"
    )


def test_second_charge_of_an_occasion_is_refused(tmp_path: Path) -> None:
    """With ``once``, the second charge for a plan hash is refused; without, it is not."""
    ledger = Ledger(tmp_path / "ledger.db")
    assert ledger.charge_of(HASH) is None
    first, second, third = (reserve(ledger) for _ in range(3))
    entry = ledger.charge(first, artefact_sha256="00" * 32, once=True)  # type: ignore[arg-type]
    assert ledger.charge_of(HASH) == entry
    with pytest.raises(BudgetError, match="already been charged"):
        ledger.charge(second, artefact_sha256="11" * 32, once=True)  # type: ignore[arg-type]
    ledger.charge(third, artefact_sha256="22" * 32)  # type: ignore[arg-type]
    assert ledger.charge_of(HASH) == entry
    ledger.verify()


def test_of_many_at_once_one_is_charged(tmp_path: Path) -> None:
    """Threads that protect for one occasion at once leave one charge and one artefact."""
    ledger = Ledger(tmp_path / "ledger.db")
    failures: list[BaseException] = []

    def make(number: int) -> None:
        try:
            protect_to(
                tmp_path / f"out-{number}",
                lambda: TABLE,
                SCHEMA,
                PLAN,
                ledger=ledger,
                population="p",
                occasion=Occasion(hash=HASH, note="round r1"),
            )
        except (BudgetError, OutputExistsError) as error:
            failures.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 3
    (charge,) = [entry for entry in ledger.entries() if entry.kind == "charge"]
    assert (charge.plan_hash, charge.note) == (HASH, "round r1")
    assert len(list(tmp_path.glob("out-*"))) == 1
    assert not list(tmp_path.glob(".out-*"))
    assert str(ledger.account("p").spent) == "0.5"
