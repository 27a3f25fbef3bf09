"""Published boundaries come from the schema's cells, not from values of the table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.methods.slicing.public_cells import CELLS, encode_on_cells, on_public_cells
from sherd.release.protect import Settings
from sherd.tables.attribute import Attribute, Type
from sherd.verifying.range_ends import check_range_ends

WEIGHT: dict[str, Any] = {"type": "integer", "domain": [10_000, 1_500_000]}


def _table(n: int = 1200) -> pa.Table:
    rng = np.random.default_rng(4)
    return pa.table(
        {
            "weight": rng.integers(10_000, 1_500_001, n),
            "age": rng.integers(17, 91, n),
            "ill": rng.choice(["flu", "cold", "burn", "cut"], n),
        }
    )


def _bounds(book: dict[str, Any]) -> set[int]:
    return {int(said[end]) for said in book.values() for end in ("low", "high") if end in said}


@pytest.mark.parametrize(
    "plan",
    [
        {"method": "mondrian", "k": 10},
        {"method": "slice", "l": 2, "columns": 2, "min_frequency": 10},
    ],
    ids=lambda plan: plan["method"],
)
def test_no_boundary_is_taken_from_a_value(plan: dict[str, Any]) -> None:
    """Every boundary lies on the public cells; only by chance is one somebody's value.

    1,200 values on 1,490,001 points: a boundary is one of them with probability 0.0008, so more
    than 5 of 400 happen in fewer than one in a million tables. Taken from values, most are.
    """
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "weight": WEIGHT,
                "age": {"type": "integer", "domain": [17, 90]},
                "ill": {"type": "category", "role": "sensitive"},
            }
        }
    )
    table = _table()
    made = sherd.protect(
        table, schema, sherd.Plan(**plan), ledger=None, settings=Settings(seed=1, threads=1)
    )
    bounds = _bounds(made.manifest["facts"]["labels"]["weight"])
    assert len(bounds) > 20
    width = 1_490_001
    edges = {10_000 + -(-i * width // CELLS) for i in range(CELLS + 1)}
    edges |= {edge - 1 for edge in edges} | {1_500_000}
    assert bounds <= edges
    assert len(bounds & set(table["weight"].to_pylist())) <= 5
    assert sherd.verify(made).passed
    assert not made.manifest["guarantee"]["words"].count("ends of ranges")
    assert not [one for one in made.findings if one.name == "ends of ranges"]


@pytest.mark.parametrize("plan", [{"method": "mondrian", "k": 4},
    {"method": "slice", "l": 2, "columns": 2, "min_frequency": 4}], ids=lambda p: p["method"],
)  # fmt: skip
def test_no_end_is_a_value_where_cells_are_single_values(plan: dict[str, Any]) -> None:
    """Ages by the year, every seventh of which occurs: ranges end between them."""
    attributes = {
        "age": {"type": "integer", "domain": [0, 99]},
        "ill": {"type": "category", "role": "sensitive"},
    }
    ages = [7 * (i % 14) for i in range(140)]
    table = pa.table({"age": ages, "ill": [["flu", "cold", "cut"][i % 3] for i in range(140)]})
    schema = sherd.Schema.from_data({"attributes": attributes})
    made = sherd.protect(table, schema, sherd.Plan(**plan), ledger=None)
    bounds = _bounds(made.manifest["facts"]["labels"]["age"]) - {0, 99}
    assert len(bounds) > 10
    assert not bounds & set(ages)
    assert sherd.verify(made).passed


def test_ranges_around_values_are_opted_into_and_named() -> None:
    """``boxes: tight`` is said in the promise and to the owner, and stating otherwise is found."""
    schema = sherd.Schema.from_data({"attributes": {"weight": WEIGHT}})
    table = _table().select(["weight"])
    plan = sherd.Plan(method="mondrian", k=10, boxes="tight")
    made = sherd.protect(table, schema, plan, ledger=None, settings=Settings(seed=1))
    bounds = _bounds(made.manifest["facts"]["labels"]["weight"])
    assert bounds <= set(table["weight"].to_pylist())
    assert "the value of somebody in the class" in made.manifest["guarantee"]["words"]
    assert [one.meaning[:7] for one in made.findings if one.name == "ends of ranges"] == ["WARNING"]
    assert sherd.verify(made).passed
    stated = {**made.manifest, "plan": {**made.manifest["plan"], "boxes": "cells"}}
    failed = sherd.verify(sherd.Release(tables=made.tables, manifest=stated)).failed
    assert "ends of ranges" in [check.name for check in failed]


@pytest.mark.parametrize(
    ("kind", "domain", "cells"),
    [
        ("number", ["0", "1"], [i / 300 for i in range(300)]),
        ("integer", ["0", "2999"], list(range(0, 3000, 7))),
        ("date", ["1900-01-01", "2020-12-31"], [dt.date(1900, 1, 2) + dt.timedelta(days=140 * i)
                                                for i in range(300)]),
        ("datetime", ["2000-01-01T00:00:00", "2001-01-01T00:00:00"],
         [dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=29 * i) for i in range(300)]),
    ],
    ids=["number", "integer", "date", "datetime"],
)  # fmt: skip
def test_ends_are_verified_for_every_kind_of_value(
    kind: str, domain: list[str], cells: list[Any]
) -> None:
    """What ``mondrian`` publishes passes; one end moved off its cell does not."""
    schema = sherd.Schema.from_data({"attributes": {"x": {"type": kind, "domain": domain}}})
    made = sherd.protect(
        pa.table({"x": cells}), schema, sherd.Plan(method="mondrian", k=3), ledger=None
    )
    checks = {check.name: check for check in sherd.verify(made).checks}
    assert checks["ends of ranges"].passed is True
    book = made.manifest["facts"]["labels"]["x"]
    label = sorted(book)[len(book) // 2]
    odd = cells[len(cells) // 2 + 1]
    said = {**book[label], "low": odd.isoformat() if kind.startswith("date") else str(odd)}
    facts = {**made.manifest["facts"], "labels": {"x": {**book, label: said}}}
    assert check_range_ends({**made.manifest, "facts": facts})[0].passed is False


def test_ends_without_a_domain_are_named() -> None:
    """Leading digits decide, and below 100 they are the value: the promise says so."""
    schema = sherd.Schema.from_data({"attributes": {"age": {"type": "integer"}}})
    plan = sherd.Plan(method="mondrian", k=10)
    assert "leading digits of values" in plan.guarantee(schema).words()
    made = sherd.protect(_table().select(["age"]), schema, plan, ledger=None)
    check = next(one for one in sherd.verify(made).checks if one.name == "ends of ranges")
    assert "age" in check.detail


def test_a_value_stays_in_its_range() -> None:
    """The beginning of a cell is at or below the value, and the next one's above."""
    column = pa.chunked_array([[10_000, 11_489, 11_490, 1_500_000, None]])
    attribute = sherd.Schema.from_data({"attributes": {"w": WEIGHT}})["w"]
    moved = on_public_cells(column, attribute).to_pylist()
    assert moved[-1] is None
    assert all(a <= b for a, b in zip(moved[:-1], column.to_pylist()[:-1], strict=True))
    assert moved == [*sorted(moved[:-1]), None]


def test_without_a_domain_a_values_own_digits_decide() -> None:
    """Or its month."""
    number = Attribute(name="x", type=Type.NUMBER)
    column = pa.chunked_array([[12_345.0, 7.5, -123.0, None]])
    assert on_public_cells(column, number).to_pylist() == [12_000.0, 7.0, -130.0, None]
    day = Attribute(name="d", type=Type.DATE)
    days = pa.chunked_array([[dt.date(2020, 5, 17), None]])
    assert on_public_cells(days, day).to_pylist() == [dt.date(2020, 5, 1), None]
    coded = encode_on_cells(column, number)
    assert coded.label(1, coded.size - 1) == "[-130, 13000]"
    ages = encode_on_cells(pa.chunked_array([[12, 345]]), Attribute(name="n", type=Type.INTEGER))
    assert ages.label(1, 1) == "[340, 349]"
    assert encode_on_cells(days, day).label(1, 1) == "[2020-05-01, 2020-05-31]"
    label = Attribute(name="c", type=Type.CATEGORY)
    same = pa.chunked_array([["a"]])
    assert on_public_cells(same, label) is same
