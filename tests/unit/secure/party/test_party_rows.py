"""A party's rows, and what the plan says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.errors import PlanError, SchemaError, TableError
from sherd.methods.specialising.diffgen import settings
from sherd.secure.party.party_rows import read_input

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]


def test_plan_promises_epsilon_and_delta(schema: Make, plan: Make) -> None:
    """Finite bits make a δ; a person with several rows has it grow."""
    promised = plan().guarantee(schema()).as_data()
    assert promised["epsilon"] == 1
    assert 0 < float(str(promised["delta"])) < 1e-12
    rows = plan().guarantee(schema(unit="id", rows_per_unit=2)).as_data()
    assert rows["epsilon"] == 2
    assert float(str(rows["delta"])) > 2 * float(str(promised["delta"]))


def test_a_huge_epsilon_is_no_promise(schema: Make, plan: Make) -> None:
    """Its δ would reach 1: that is said, and nothing overflows."""
    with pytest.raises(sherd.errors.SherdError, match="delta is out of range"):
        plan(epsilon=5000.0).guarantee(schema())


def test_one_owner_alone_is_refused(schema: Make, plan: Make) -> None:
    """The plan is for parties; protect says what to use instead."""
    whole = pa.table({"id": ["r"], "age": [1], "job": ["a"], "income": ["low"]})
    with pytest.raises(PlanError, match="takes several parties"):
        sherd.protect(whole, schema(), plan())


@pytest.mark.parametrize("more", [{"missing": "drop"}, {"outside": "drop"}])
def test_dropping_is_refused(schema: Make, plan: Make, more: dict[str, Any]) -> None:
    """Nobody sees a whole record, so nobody can drop it."""
    with pytest.raises(SchemaError, match="would be dropped"):
        plan().check(schema(**more))


def test_fragments_are_put_in_the_order_of_ids(
    fragment: pa.Table, schema: Make, plan: Make
) -> None:
    """Empty cells are the others'; classes are known; another order of rows changes nothing."""
    given = read_input(fragment, schema(), plan(), "id")
    assert [codes.tolist() for codes in given.cells.codes] == [[4, 5, -1], [-1, 0, 1]]
    assert given.classes.tolist() == [1, 0, 0]
    assert given.identifiers == (b"r0", b"r1", b"r2")
    other = read_input(fragment.take([2, 0, 1]), schema(), plan(), "id")
    assert other.ids_hash == given.ids_hash
    assert other.classes_hash == given.classes_hash


def test_some_rows_can_be_taken(fragment: pa.Table, schema: Make, plan: Make) -> None:
    """In the order asked for: cells, classes and ids together."""
    some = read_input(fragment, schema(), plan(), "id").take(np.array([2, 0]))
    assert [codes.tolist() for codes in some.cells.codes] == [[-1, 4], [1, -1]]
    assert some.classes.tolist() == [0, 1]
    assert (some.rows, some.identifiers) == (2, (b"r2", b"r0"))


def test_kept_missing_cells_are_told_from_cells_of_others(
    fragment: pa.Table, schema: Make, plan: Make
) -> None:
    """The schema's mark is a value that this party holds; an empty cell is not."""
    given = schema(missing="keep", missing_values=["?"])
    marked = fragment.set_column(2, "job", pa.array(["?", None, "a"]))
    found = read_input(marked, given, plan(), "id")
    assert found.cells.codes[1].tolist() == [-1, 0, 2]


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("age", None, "columns are missing: age"),
        ("id", ["r", "r", "s"], "not unique"),
        ("id", ["r", " r ", "s"], "not unique"),
        ("id", ["r", "  ", "s"], "empty or not unique"),
        ("id", ["r", None, "s"], "empty or not unique"),
        ("income", ["low", None, "low"], "the class 'income' has missing cells"),
        ("income", ["low", "?", "low"], "has missing cells"),
        ("job", ["b", "?", None], "the attribute 'job' has missing cells"),
    ],
)
def test_unfit_fragments_are_refused(
    fragment: pa.Table, schema: Make, plan: Make, column: str, values: Any, problem: str
) -> None:
    """Missing columns, ids that repeat or are empty, classes that are not known."""
    place = fragment.column_names.index(column)
    changed = fragment.remove_column(place)
    if values is not None:
        changed = changed.append_column(column, pa.array(values))
    with pytest.raises(TableError, match=problem):
        read_input(changed, schema(missing_values=["?"]), plan(), "id")


def test_a_missing_class_is_counted_where_the_schema_keeps_it(
    fragment: pa.Table, schema: Make, plan: Make
) -> None:
    """Counts are spent on the class `(missing)` only where it can occur, and then it may."""
    kept = schema(missing="keep", missing_values=["?"])
    place = fragment.column_names.index("income")
    given = fragment.set_column(place, "income", pa.array(["low", None, "?"]))
    assert read_input(given, kept, plan(), "id").classes.tolist() == [2, 2, 0]
    assert settings(plan(), kept).class_labels == ("low", "high", "(missing)")
    assert settings(plan(), schema()).class_labels == ("low", "high")


def test_arrays_of_parties_make_the_whole(fragment: pa.Table, schema: Make, plan: Make) -> None:
    """Two parties' fragments add up to the codes of the whole table."""
    other = fragment.set_column(1, "age", pa.array([6, None, None], pa.int64()))
    other = other.set_column(2, "job", pa.array([None, "a", None], pa.string()))
    parts = [read_input(one, schema(), plan(), "id") for one in (fragment, other)]
    ages = np.array([one.cells.codes[0] for one in parts])
    assert (np.sum(ages >= 0, axis=0) == 1).all()
    assert ages.max(axis=0).tolist() == [4, 5, 6]
