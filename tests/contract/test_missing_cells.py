"""Null, not-a-number, infinities, empty texts and the schema's words are one thing: missing.

In every method, under ``missing: keep``, whichever of them a table has and whatever it is read
from: what comes out is the same, and no value is made up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sherd
from sherd.release.protect import Settings
from sherd.tables.read import read

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 60
SCHEMA = sherd.Schema.from_data(
    {
        "missing_values": ["?", "-9"],
        "attributes": {
            "age": {"type": "integer", "domain": [20, 69]},
            "pay": {"type": "number", "domain": [5, 100]},
            "ill": {
                "type": "category",
                "role": "sensitive",
                "values": ["flu", "cold", "burn", "cut"],
            },
        },
    }
)
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"method": "dp", "epsilon": 1.0},
    "idp-ls": {"method": "idp-ls", "epsilon": 1.0, "k": 3, "guarantee": "paper"},
    "slice": {"method": "slice", "l": 2, "columns": 2, "suppress": True},
    "mondrian": {"method": "mondrian", "k": 3},
    "anatomy": {"method": "anatomy", "l": 2, "suppress": True},
    "fragment": {
        "method": "fragment",
        "constraints": {"constraints": [["age", "ill"]]},
        "fragments": [["age", "pay"], ["ill"]],
        "looseness": 2,
        "suppress": 0.9,
    },
    "diffgen": {"method": "diffgen", "epsilon": 50.0, "h": 2, "class_attribute": "ill"},
}
MISSING_NUMBERS = [None, float("nan"), float("inf"), -9.0]
MISSING_LABELS = [None, "?", ""]


def _cells(number: Any, label: Any) -> dict[str, list[Any]]:
    ills = ["flu", "cold", "burn", "cut"]
    return {
        "age": [number if i % 6 == 0 else float(20 + i % 50) for i in range(ROWS)],
        "pay": [number if i % 5 == 0 else 5.0 + i for i in range(ROWS)],
        "ill": [label if i % 4 == 1 and i < 40 else ills[i % 4] for i in range(ROWS)],
    }


def _released(table: Any, plan: str) -> dict[str, pa.Table]:
    chosen = sherd.Plan(**PLANS[plan])
    settings = Settings(seed=2, threads=1)
    return dict(sherd.protect(table, SCHEMA, chosen, ledger=None, settings=settings).tables)


@pytest.mark.parametrize("plan", PLANS)
def test_all_ways_to_be_missing_give_one_release(plan: str, tmp_path: Path) -> None:
    """From memory and from CSV, with the same random numbers, to the cell."""
    expected = _released(pa.table(_cells(None, None)), plan)
    for number in MISSING_NUMBERS:
        for label in MISSING_LABELS:
            made = _released(pa.table(_cells(number, label)), plan)
            assert {name: one.to_pydict() for name, one in made.items()} == {
                name: one.to_pydict() for name, one in expected.items()
            }, (number, label)
    rows = zip(*_cells("-9", "?").values(), strict=True)
    lines = ["age,pay,ill"]
    for age, pay, ill in rows:
        lines.append(f"{age if isinstance(age, str) else int(age)},{pay},{ill}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    made = _released(read(path, schema=SCHEMA), plan)
    assert all(made[name].equals(one) for name, one in expected.items())


@pytest.mark.parametrize("plan", ["slice", "mondrian", "anatomy", "fragment"])
def test_no_value_is_made_up(plan: str) -> None:
    """As many cells are missing as were, and the lowest bound is nobody's value."""
    tables = _released(pa.table(_cells(float("nan"), None)), plan)
    pay = next(
        column
        for table in tables.values()
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name == "pay"
    )
    texts = ["" if cell is None else str(cell) for cell in pay.to_pylist()]
    assert not {"0", "0.0"} & set(texts)
    gone = sum(text == "" or "missing" in text or text == "*" for text in texts)
    assert gone > 0
    if plan in ("anatomy", "fragment"):
        assert "5.0" not in texts  # the lower bound, which no row has: row 0 is missing


def test_missing_classes_stay_a_class_of_their_own() -> None:
    """``diffgen`` counts them as missing, and not as one of the labels."""
    table = _released(pa.table(_cells(None, None)), "diffgen")["data"]
    counts: dict[str, int] = {}
    for ill, count in zip(table["ill"].to_pylist(), table["count"].to_pylist(), strict=True):
        counts[ill] = counts.get(ill, 0) + count
    assert set(counts) == {"flu", "cold", "burn", "cut", "(missing)"}
    # 10 missing and 5 colds; noise of ε = 50 over a handful of leaves moves neither by 4.
    assert abs(counts["(missing)"] - 10) < 4
    assert abs(counts["cold"] - 5) < 4
