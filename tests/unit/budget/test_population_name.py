"""One account for one name, however it is typed; what looks like a known one is asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import sherd
from sherd.budget.population_name import near_miss
from sherd.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

LOOK_ALIKES = [
    "T\N{CYRILLIC SMALL LETTER O}wn People",
    "\N{CYRILLIC CAPITAL LETTER TE}own People",
    "Town \N{GREEK CAPITAL LETTER RHO}eople",
    "T\N{GREEK SMALL LETTER OMICRON}wn Pe\N{CYRILLIC SMALL LETTER O}ple",
    "Town-People",
    "To\N{COMBINING ACUTE ACCENT}wn People",
]


@pytest.mark.parametrize("name", LOOK_ALIKES, ids=ascii)
def test_a_name_that_looks_like_a_known_one_opens_no_account(name: str, tmp_path: Path) -> None:
    """Letters of other scripts that look the same, signs and accents."""
    schema = sherd.Schema.from_data(
        {"attributes": {"age": {"type": "integer", "domain": ["0", "99"]}}}
    )
    plan, ledger = sherd.Plan(method="dp", epsilon=1.0), sherd.Ledger(tmp_path / "ledger.db")
    table = pa.table({"age": [1, 2, 3]})
    sherd.protect(table, schema, plan, ledger=ledger, population="Town People")
    with pytest.raises(UsageError, match="but one called 'Town People'"):
        sherd.protect(table, schema, plan, ledger=ledger, population=name)
    assert [one.population for one in ledger.accounts()] == ["Town People"]


def test_names_that_differ_on_purpose_are_not_asked_about() -> None:
    """Numbers and short words tell populations apart."""
    assert near_miss("survey 2024", ["survey 2023"]) is None
    assert near_miss("ward a", ["ward b"]) is None
