"""Preparation: the schema's policies, carried out before any method sees the table."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import TableError
from sherd.tables.canonical_form import LABELS as LABELS_INSIDE
from sherd.tables.prepare import Prepared, check_unit, prepare, untouched
from sherd.tables.schema import Schema


def _prepare(columns: Any, attributes: dict[str, Any], **more: Any) -> Prepared:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return prepare(table, Schema.from_data({"attributes": attributes, **more}))


NUMBER = {"type": "number", "domain": ["0", "10"]}
LABELS = {"type": "category", "values": ["a", "b"]}


def test_identifiers_go_and_columns_are_in_the_schemas_order() -> None:
    """Nothing else is touched where nothing is wrong."""
    given = {"x": NUMBER, "id": {"role": "identifier"}, "w": {"type": "number", "role": "weight"}}
    found = _prepare({"w": [1.0, 99.0], "id": ["p", "q"], "x": [1.0, 2.0]}, given)
    assert found.table.column_names == ["x", "w"]
    assert found.kept is None
    assert untouched(found.table, Schema.from_data({"attributes": given})) == ["w"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["x", "z", "x"], "the column name 'x' is used 2 times"),
        (["y"], "no column of the table is in the schema"),
        (["x", "z", "y"], "the schema lacks the column.* 'y' of the table"),
        (["xx", "z"], "the table lacks the column.* 'x' of the schema.*did you mean 'xx'"),
    ],
)
def test_columns_are_those_of_the_schema(names: list[str], text: str) -> None:
    """Each once, none missing, none more."""
    table = pa.table([pa.array([1.0])] * len(names), names=names)
    with pytest.raises(TableError, match=text):
        _prepare(table, {"x": NUMBER, "z": NUMBER})


def test_an_empty_table_is_refused() -> None:
    """There is nothing to protect."""
    with pytest.raises(TableError, match="no rows"):
        _prepare({"x": pa.array([], pa.float64())}, {"x": NUMBER})


@pytest.mark.parametrize(
    ("column", "attribute", "rows"),
    [
        (pa.array([1.0, None, float("nan")]), NUMBER, [0]),
        (pa.array(["a", "?", None]), LABELS, [0]),
        (pa.array(["a", "?", None]).dictionary_encode(), LABELS, [0]),
        (pa.array(["a", "?", None], pa.large_string()), LABELS, [0]),
        (pa.array(["?", "b", None]), {"type": "category", "values": ["?", "b"]}, [1]),
        (pa.array([1.0, float("inf"), float("-inf")]), NUMBER, [0]),
        (pa.array(["a", "", None]), LABELS, [0]),
    ],
)
def test_missing_cells_are_dropped(column: pa.Array, attribute: Any, rows: list[int]) -> None:
    """Null, not-a-number, an infinity, an empty text, or one of the schema's words for it."""
    found = _prepare({"x": column}, {"x": attribute}, missing="drop", missing_values=["?"])
    assert found.kept is not None
    assert found.kept.tolist() == rows
    assert found.table.num_rows == len(rows)


def test_no_row_left_is_refused() -> None:
    """After dropping."""
    with pytest.raises(TableError, match="no row is left"):
        _prepare({"x": pa.array([None], pa.float64())}, {"x": NUMBER}, missing="drop")


@pytest.mark.parametrize(
    ("column", "attribute", "expected"),
    [
        (pa.array([1.0, None]), {**NUMBER, "recode": "5"}, [1.0, 5.0]),
        (pa.array([1, None]), {**NUMBER, "recode": "5"}, [1, 5]),
        (pa.array(["a", None]), {**LABELS, "recode": "b"}, ["a", "b"]),
        (pa.array(["a", "?"]), {**LABELS, "recode": "b"}, ["a", "b"]),
        (pa.array(["a", None]).dictionary_encode(), {**LABELS, "recode": "b"}, ["a", "b"]),
        (pa.array([True, None]), {"type": "boolean", "recode": "False"}, [True, False]),
        (
            pa.array([dt.date(2020, 1, 1), None]),
            {"type": "date", "domain": ["2000-01-01", "2030-01-01"], "recode": "2021-02-03"},
            [dt.date(2020, 1, 1), dt.date(2021, 2, 3)],
        ),
    ],
    ids=str,
)
def test_missing_cells_are_recoded(column: pa.Array, attribute: Any, expected: Any) -> None:
    """To the declared value, in the type that the schema declares."""
    found = _prepare({"x": column}, {"x": attribute}, missing="recode", missing_values=["?"])
    assert found.table.column("x").to_pylist() == expected
    kinds = {"number": pa.float64(), "boolean": pa.bool_(), "date": pa.date32()}
    assert found.table.column("x").type == kinds.get(attribute["type"], LABELS_INSIDE)


def test_recoding_does_not_depend_on_the_columns_type() -> None:
    """A number that whole numbers cannot hold fills their gaps all the same."""
    attributes = {"x": {**NUMBER, "recode": "0.5"}}
    found = _prepare({"x": pa.array([1, None])}, attributes, missing="recode")
    assert found.table.column("x").to_pylist() == [1.0, 0.5]


def test_missing_cells_are_refused_or_kept() -> None:
    """Refused without their number; kept they pass."""
    gaps = {"x": pa.array([1.0, None, None])}
    with pytest.raises(TableError, match="'x' has missing cells; must be none"):
        _prepare(gaps, {"x": NUMBER}, missing="refuse")
    assert _prepare(gaps, {"x": NUMBER}).table.column("x").null_count == 2


@pytest.mark.parametrize(
    ("column", "attribute"),
    [
        (pa.array([5.0, 11.0, -1.0, None, 1e300]), NUMBER),
        (pa.array([5, 11, -1, None, 2**60]), NUMBER),
        (pa.array(["5", "11", "-1", None, "1e9"]), NUMBER),
        (pa.array([5, 11, -1, None, 12]).dictionary_encode(), NUMBER),
        (
            pa.array([5, 11, -1, None, 12], pa.date32()),
            {"type": "date", "domain": ["1970-01-01", "1970-01-11"]},
        ),
        (
            pa.array([5, 11, -1, None, 12], pa.timestamp("s", tz="UTC")),
            {"type": "datetime", "domain": ["1970-01-01", "1970-01-01T00:00:10"]},
        ),
        (pa.array(["a", "q", "r", None, "s"]), LABELS),
        (pa.array(["a", "q", "r", None, "s"]).dictionary_encode(), LABELS),
    ],
    ids=str,
)
def test_values_outside_the_domain(column: pa.Array, attribute: Any) -> None:
    """Dropped, or refused without their number; gaps are not outside."""
    chunked = pa.table({"x": pa.chunked_array([column[:2], column[2:]])})
    found = _prepare(chunked, {"x": attribute}, outside="drop")
    assert found.kept is not None
    assert found.kept.tolist() == [0, 3]
    with pytest.raises(TableError, match=r"has (labels|values)"):
        _prepare(chunked, {"x": attribute}, outside="refuse")


def test_clamping_is_left_to_the_method_but_for_labels() -> None:
    """A number has a nearest end; an unknown label has none unless the schema names one."""
    assert _prepare({"x": [99.0]}, {"x": NUMBER}).table.column("x").to_pylist() == [99.0]
    with pytest.raises(TableError, match="has labels its schema does not list"):
        _prepare({"x": ["q"]}, {"x": LABELS})
    assert _prepare({"x": ["q"]}, {"x": {**LABELS, "other": "b"}}).kept is None
    assert _prepare({"x": ["q"]}, {"x": {"type": "category"}}).kept is None
    assert _prepare({"x": [99.0]}, {"x": {"type": "number"}}, outside="refuse").kept is None


@pytest.mark.parametrize("policy", ["clamp", "drop", "refuse"])
def test_no_message_quotes_a_cell(policy: str) -> None:
    """Whatever stands in the column."""
    for column, attribute in (
        (pa.array(["marker"]), NUMBER),
        (pa.array([["marker"]]), LABELS),
        (pa.array(["marker"]), {"type": "date", "domain": ["1970-01-01", "1970-01-11"]}),
    ):
        if policy == "clamp" and attribute is not LABELS:
            continue  # seen when the column is read
        with pytest.raises(TableError) as caught:
            _prepare({"x": column}, {"x": attribute}, outside=policy)
        assert "marker" not in str(caught.value)


UNIT = {"x": NUMBER, "who": {"role": "identifier"}}


def test_somebody_with_too_many_rows_is_refused() -> None:
    """Counted, not named; as many as the schema allows pass."""
    table = {"x": [1.0, 2.0, 3.0], "who": ["p", "p", "q"]}
    with pytest.raises(TableError, match="a unit in 'who' has more rows") as caught:
        _prepare(table, UNIT, unit="who")
    assert caught.value.must == "at most 1"
    assert _prepare(table, UNIT, unit="who", rows_per_unit=2).table.num_rows == 3


def test_rows_of_nobody_count_as_one_person() -> None:
    """The cautious reading of a missing unit; an empty table has nobody."""
    with pytest.raises(TableError, match="more rows than the schema allows"):
        _prepare({"x": [1.0, 2.0], "who": pa.array([None, None], pa.string())}, UNIT, unit="who")
    schema = Schema.from_data({"attributes": UNIT, "unit": "who"})
    check_unit(pa.table({"who": pa.array([], pa.string())}), schema)


def test_policies_add_up() -> None:
    """A row goes if any of its cells makes it go."""
    table = {"x": [1.0, None, 3.0, 40.0], "y": ["a", "a", None, "b"]}
    found = _prepare(table, {"x": NUMBER, "y": LABELS}, missing="drop", outside="drop")
    assert np.array_equal(found.kept, [0])  # type: ignore[arg-type]


def test_nothing_of_a_dropped_row_stays_in_a_dictionary() -> None:
    """Neither its own label nor that of an attribute released as it is."""
    coded = pa.chunked_array([pa.array(["a", "q"]), pa.array(["b", None])]).dictionary_encode()
    notes = pa.array(["one", "two", None, "one"]).dictionary_encode()
    attributes = {"x": LABELS, "note": {"type": "text", "role": "insensitive"}}
    found = _prepare({"x": coded, "note": notes}, attributes, outside="drop").table
    assert found.column("x").to_pylist() == ["a", "b", None]
    assert found.column("note").to_pylist() == ["one", None, "one"]
    assert found.column("x").chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert found.column("note").chunk(0).dictionary.to_pylist() == ["one"]
    assert found.column("note").type == notes.type


def _treated(found: Prepared) -> set[tuple[str, str, int]]:
    return {(one.attribute, one.how, one.cells) for one in found.treated}


def test_what_was_done_to_cells_is_told_to_the_owner() -> None:
    """Kept, recoded, clamped and dropped cells, each with its number, attribute by attribute."""
    columns = {"x": [99.0, None, 1.0, 2.0], "c": ["a", "q", None, "b"], "d": [1.0, -1.0, 5.0, 5.0]}
    given = {
        "x": NUMBER,
        "c": {**LABELS, "missing": "recode", "recode": "a", "other": "b"},
        "d": {**NUMBER, "outside": "drop"},
    }
    found = _prepare(columns, given)
    assert _treated(found) == {
        ("x", "kept", 1), ("x", "clamped", 1), ("c", "recoded", 1), ("d", "dropped", 1)
    }  # fmt: skip
    assert sum(one.how == "recoded" for one in found.treated) == 2  # a gap, and a label
    worst = {one.attribute: one.meaning() for one in found.treated if one.worrying}
    assert (
        worst["x"] == "WARNING: 1 of 4 cells were clamped: outside its domain; is the schema right?"
    )
    assert _prepare({"x": [1.0]}, {"x": NUMBER}).treated == ()


STRICT: dict[str, Any] = {
    "x": NUMBER,
    "n": {"type": "integer", "domain": ["0", "9"]},
    "c": {**LABELS, "outside": "refuse"},
    "b": {"type": "boolean"},
    "d": {"type": "date", "domain": ["1970-01-01", "1970-01-11"]},
}


def test_strict_refuses_nothing_that_a_record_could_cause() -> None:
    """Missing, unreadable, unlisted and surplus cells take a value of the schema's alone."""
    table = pa.table(
        {
            "id": ["p", "q", "q", "r"],
            "x": ["1.5", "what", None, "99"],
            "n": pa.array([1.0, 2.4, 7.0, float("inf")]),
            "c": ["a", "q", "b", None],
            "b": pa.array([True, None, True, True]),
            "d": pa.array([None, 3, 3, 400], pa.date32()),
        }
    )
    schema = Schema.from_data(
        {
            "missing": "refuse",
            "unit": "id",
            "attributes": {"id": {"role": "identifier"}, **STRICT},
        }
    )
    with pytest.raises(TableError):
        prepare(table, schema)
    found = prepare(table, schema, strict=True)
    assert found.kept is None
    assert found.table.to_pydict() == {
        "x": [1.5, 5.0, 5.0, 99.0],
        "n": [1, 2, 4, 4],
        "c": ["a", "a", "a", "a"],
        "b": [True, False, False, True],
        "d": [dt.date(1970, 1, 6), dt.date(1970, 1, 4), dt.date(1970, 1, 6), dt.date(1971, 2, 5)],
    }
    assert ("x", "clamped", 1) in _treated(found)
    assert any("too many of a unit" in one.why for one in found.treated)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("usual", ["2020-01-01T10:00:00", "2020-01-01T10:00:00Z"])
@pytest.mark.parametrize(
    ("odd", "hour"),
    [("2020-01-01T10:00:00+02:00", 8), ("2020-01-01 10:00", 10), ("2020-01-01T10:00:00Z", 10),
     ("2020-01-01", 0)],
)  # fmt: skip
def test_one_time_with_another_zone_than_the_rest_refuses_nothing(
    usual: str, odd: str, hour: int, strict: bool
) -> None:
    """Every cell is read by itself: one with a zone among others without, or the reverse."""
    attributes = {"t": {"type": "datetime", "domain": ["2019-01-01", "2022-01-01"]}}
    schema = Schema.from_data({"attributes": attributes})
    found = prepare(pa.table({"t": [usual, usual, odd, None]}), schema, strict=strict)
    at = [one and one.hour for one in found.table.column("t").to_pylist()[:3]]
    assert at == [10, 10, hour]


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf"), -9.0])
@pytest.mark.parametrize("kind", ["integer", "number"])
def test_numbers_that_mean_nothing_are_missing_whatever_the_source(
    missing: float | None, kind: str
) -> None:
    """A word for "no value" that is a number is one in a column of numbers too."""
    attributes = {"x": {"type": kind, "domain": ["0", "10"]}}
    found = _prepare({"x": [1.0, missing]}, attributes, missing_values=["-9"])
    assert found.table.column("x").to_pylist() == [1, None]


def test_days_and_times_that_mean_nothing_are_missing() -> None:
    """The same for dates and times, with a zone or without."""
    attributes = {
        "d": {"type": "date", "domain": ["1970-01-01", "2030-01-01"]},
        "t": {"type": "datetime", "domain": ["1970-01-01", "2030-01-01"]},
    }
    table = {
        "d": pa.array([dt.date(2020, 1, 1), dt.date(1999, 9, 9)]),
        "t": pa.array([dt.datetime(1999, 9, 9, tzinfo=dt.UTC), None]).cast(
            pa.timestamp("ns", "Europe/Berlin")
        ),
    }
    found = _prepare(table, attributes, missing_values=["1999-09-09"])
    assert found.table.to_pydict() == {"d": [dt.date(2020, 1, 1), None], "t": [None, None]}
