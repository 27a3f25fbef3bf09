"""Tables with types of their own: kept where they serve, converted or refused where not."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from sherd.errors import TableError
from sherd.tables.conform import conform
from sherd.tables.schema import Schema


def schema(kind: str, **settings: Any) -> Schema:
    """A schema of one attribute ``a``."""
    missing = settings.pop("missing_values", [])
    return Schema.from_data(
        {"missing_values": missing, "attributes": {"a": {"type": kind, **settings}}}
    )


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("integer", pa.array([1, None], pa.uint8())),
        ("integer", pa.array([Decimal(1), None], pa.decimal128(20, 0))),
        ("number", pa.array([1.5, None], pa.float32())),
        ("number", pa.array([1, None], pa.int32())),
        ("number", pa.array([Decimal("1.50"), None])),
        ("date", pa.array([dt.date(2020, 1, 31), None], pa.date64())),
        ("datetime", pa.array([0, None], pa.timestamp("ns", "Europe/Berlin"))),
        ("boolean", pa.array([True, None])),
        ("category", pa.array(["x", None], pa.large_string())),
        ("category", pa.array(["x", None], pa.string_view())),
        ("ordinal", pa.array(["x", None]).dictionary_encode()),
        ("text", pa.array(["x", None])),
    ],
)
def test_types_that_serve_are_kept(kind: str, column: pa.Array) -> None:
    """Width, precision, zone and dictionary come through as they are."""
    assert conform(pa.table({"a": column}), schema(kind))["a"].combine_chunks().equals(column)


@pytest.mark.parametrize(
    ("kind", "column", "after"),
    [
        ("integer", pa.array([1.0, None]), pa.array([1, None])),
        ("integer", pa.array([1.0, 2.4, float("nan")]), pa.array([1, 2, None])),
        ("category", pa.array([1.0, 37.5]), pa.array(["1", "37.5"])),
        ("category", pa.array([Decimal("1.00"), Decimal("37.50")]), pa.array(["1", "37.5"])),
        ("integer", pa.array(["1", None]), pa.array([1, None])),
        ("number", pa.array(["1.5", None]), pa.array([1.5, None])),
        ("number", pa.array(["1.5", None]).dictionary_encode(), pa.array([1.5, None])),
        ("date", pa.array(["2020-01-31"]), pa.array([dt.date(2020, 1, 31)])),
        ("datetime", pa.array([dt.date(2020, 1, 31)]), pa.array([dt.datetime(2020, 1, 31)])),  # noqa: DTZ001
        ("boolean", pa.array(["true", "0"]), pa.array([True, False])),
        ("boolean", pa.array([1, 0]), pa.array([True, False])),
        ("category", pa.array([1, None]), pa.array(["1", None])),
        ("category", pa.array([True]), pa.array(["true"])),
        ("category", pa.array([1, None]).dictionary_encode(), pa.array(["1", None])),
        ("category", pa.array([None, None]), pa.array([None, None], pa.string())),
    ],
)
def test_other_types_are_converted(kind: str, column: pa.Array, after: pa.Array) -> None:
    """A value that can be read as the attribute's type is."""
    assert conform(pa.table({"a": column}), schema(kind))["a"].combine_chunks().equals(after)


@pytest.mark.parametrize(
    ("kind", "column", "row"),
    [
        ("integer", pa.array(["1", "2.5", "3"]), "in row 2"),
        ("number", pa.array(["1", "2", None, "Zaphod", "x"]), "in row 4"),
        ("date", pa.array(["Zaphod"]), "in row 1"),
        ("date", pa.array([0, 3600], pa.timestamp("s")), "in row 2"),
        ("boolean", pa.array(["true", "Zaphod"]), "in row 2"),
        ("datetime", pa.array([1.5]), "does not fit its attribute;"),
    ],
)
def test_what_cannot_be_converted_is_named_by_column_and_row(
    kind: str, column: pa.Array, row: str
) -> None:
    """The first row that does not fit is said and its cell is not; no value is cut."""
    with pytest.raises(TableError, match="column 'a' does not fit") as caught:
        conform(pa.table({"a": column}), schema(kind))
    assert row in str(caught.value)
    assert "Zaphod" not in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([{"x": 1}]),
        pa.array([b"x"]),
        pa.array([b"x"], pa.large_binary()),
        pa.array([b"x"], pa.binary(1)),
        pa.array([b"x"], pa.binary_view()),
    ],
)
def test_nested_and_binary_columns_are_refused(column: pa.Array) -> None:
    """Lists, records and bytes are not attributes."""
    with pytest.raises(TableError, match="column 'a' holds values that Sherd cannot handle"):
        conform(pa.table({"a": column}), schema("text"))


def test_an_identifier_that_cannot_be_treated_is_left_out() -> None:
    """It is never released; as the unit, by which rows are counted, it is refused."""
    table = pa.table({"a": pa.array([[1], [2]]), "b": [1, 2]})
    attributes = {"a": {"type": "text", "role": "identifier"}, "b": {"type": "integer"}}
    given = Schema.from_data({"attributes": attributes})
    assert conform(table, given).to_pydict() == {"a": [None, None], "b": [1, 2]}
    with pytest.raises(TableError, match="cannot handle"):
        conform(table, Schema.from_data({"attributes": attributes, "unit": "a"}))


def test_an_extension_type_is_read_as_what_it_stores() -> None:
    """A column with a type of some library's own is what lies below it."""
    column = pa.ExtensionArray.from_storage(
        pa.opaque(pa.string(), "numeric", "db"), pa.array(["1.5"])
    )
    assert conform(pa.table({"a": column}), schema("number")).to_pydict() == {"a": [1.5]}


@pytest.mark.parametrize("encode", [False, True])
def test_missing_marks_in_text_are_missing(encode: bool) -> None:
    """Marks become missing cells in plain text and behind a dictionary, before conversion."""
    column = pa.array(["?", "1", None, "?"])
    column = column.dictionary_encode() if encode else column
    table = pa.table({"a": column})
    marked = conform(table, schema("category", missing_values=["?"]))
    assert marked.to_pydict() == {"a": [None, "1", None, None]}
    numbers = conform(table, schema("integer", missing_values=["?"]))
    assert numbers.to_pydict() == {"a": [None, 1, None, None]}


def test_identifiers_are_text_whatever_they_were() -> None:
    """An identifier is never computed with."""
    table = conform(pa.table({"a": [7]}), schema("integer", role="identifier"))
    assert table.to_pydict() == {"a": ["7"]}


def test_columns_keep_the_order_of_the_table() -> None:
    """The schema says what columns are, not where they stand."""
    given = Schema.from_data({"attributes": {"b": {"type": "integer"}, "a": {"type": "integer"}}})
    assert conform(pa.table({"a": [1], "b": [2]}), given).column_names == ["a", "b"]


def test_many_columns_are_not_all_listed() -> None:
    """A message about a hundred columns names the first few and counts the rest."""
    table = pa.table({"a": [1], **{f"x{i}": [1] for i in range(100)}})
    with pytest.raises(TableError, match="'x7' and 92 more"):
        conform(table, schema("integer"))


def test_an_identifier_of_a_kind_without_a_text_is_refused() -> None:
    """What cannot even be written as text is said by its type."""
    column = pa.array([(1, 2, 3)], pa.month_day_nano_interval())
    with pytest.raises(TableError, match="must be text; got the type month_day_nano_interval"):
        conform(pa.table({"a": column}), schema("integer", role="identifier"))
