"""Coding columns to positions, and back to the column's own type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import TableError
from sherd.tables.axis import Axis
from sherd.tables.coding import (
    BLOCK,
    arrow_array,
    encode,
    in_units,
    nulls,
    numpy_array,
    positions,
    storage,
    text_array,
    texts,
    wrap,
)
from sherd.tables.schema import Schema, Type


def _axis(**attribute: Any) -> Axis:
    return Axis.of(Schema.from_data({"attributes": {"x": attribute}})["x"])


NUMBER = _axis(type="number", domain=["0", "10"], grid="0.5")
WHOLE = _axis(type="integer", domain=["0", "100"])
LABELS = _axis(type="category", values=["a", "b", "c"])


def _chunked(*parts: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array(list(parts))


def test_values_are_rounded_to_the_grid_and_clamped() -> None:
    """Ties go to the even position, infinities to the ends, not-a-number is missing."""
    values = [0.2, 0.25, 0.75, 9.9, 11.0, -1.0, float("inf"), float("-inf"), float("nan"), None]
    found, gaps = positions(_chunked(pa.array(values)), NUMBER)
    assert found[:8].tolist() == [0, 0, 2, 20, 20, 0, 20, 0]
    assert gaps.tolist() == [False] * 8 + [True, True]


@pytest.mark.parametrize(
    "low", [-(2**53) + 9, -(2**52), -(2**52) + 1, -7, 0, 7, 2**52 - 1, 2**52, 2**53 - 8]
)
def test_positions_are_exact_wherever_the_axis_lies(low: int) -> None:
    """Floats count from the low end, also where they are barely whole numbers."""
    far = _axis(type="number", domain=[str(low), str(low + 8)], grid="1")
    values = [float(low + step) for step in range(9)]
    assert positions(_chunked(pa.array([*values, -1e300, 1e300])), far)[0].tolist() == [
        *range(9), 0, 8,
    ]  # fmt: skip


def test_blocks_cover_the_column() -> None:
    """However it is cut into chunks, with the first row of each block."""
    n = BLOCK + 5
    column = _chunked(pa.array(np.arange(n) % 101), pa.array([], pa.int64()), pa.array([7, 8]))
    blocks = list(encode(column, WHOLE))
    assert [start for start, _, _ in blocks] == [0, BLOCK, n]
    found, _ = positions(column, WHOLE)
    assert found.tolist() == [*(np.arange(n) % 101).tolist(), 7, 8]


def test_labels_marks_and_strangers() -> None:
    """Marks are missing unless they are labels; unknown labels are refused or recoded."""
    column = _chunked(pa.array(["a", "?", None, "c"]))
    found, gaps = positions(column, LABELS, ["?"])
    assert gaps.tolist() == [False, True, True, False]
    assert found[[0, 3]].tolist() == [0, 2]
    marked = _axis(type="category", values=["a", "?"])
    assert not positions(_chunked(pa.array(["?", "a"])), marked, ["?"])[1].any()
    with pytest.raises(TableError, match="labels that its schema does not list") as caught:
        positions(_chunked(pa.array(["a", "marker"])), LABELS)
    assert "marker" not in str(caught.value)
    unused = pa.array(["a", "q", "b"]).dictionary_encode().take(pa.array([0, 2]))
    assert positions(_chunked(unused), LABELS)[0].tolist() == [0, 1]
    other = _axis(type="category", values=["a", "b"], other="b")
    assert positions(_chunked(pa.array(["a", "marker"])), other)[0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        (pa.array([1, 2]), ["1", "2"]),
        (pa.array([1.0, 2.5]), ["1", "2.5"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([dt.date(2020, 1, 2)] * 2), ["2020-01-02"]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", "b"]).cast(pa.string_view()), ["a", "b"]),
        (pa.array([b"a", b"b"]), ["a", "b"]),
        (pa.array([Decimal("1.50")]), ["1.50"]),
        (pa.array([1, 2, 2]).dictionary_encode(), ["1", "2"]),
        (pa.array(["a", None]).dictionary_encode(), ["a", "b"]),
        (
            pa.array(["a", None]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
            ["a"],
        ),
    ],
    ids=str,
)
def test_labels_of_every_type_come_back(column: pa.Array, labels: list[str]) -> None:
    """A category may be a number, a date or text: it comes back as what it was."""
    axis = _axis(type="category", values=labels)
    found, gaps = positions(_chunked(column), axis)
    back = wrap(axis, storage(axis, found, 1, column.type), gaps, column.type)
    assert back.type == column.type
    assert back.to_pylist() == column.to_pylist()


def test_labels_the_column_cannot_hold_are_refused() -> None:
    """A column of numbers has no place for a word."""
    axis = _axis(type="category", values=["1", "other"], other="other")
    with pytest.raises(TableError, match="labels that its column cannot hold"):
        wrap(axis, np.array([0, 1]), None, pa.int64())


def test_a_dictionary_of_more_labels_than_its_indices() -> None:
    """The schema's labels may be more than an 8-bit index counts."""
    axis = _axis(type="category", values=[f"v{i}" for i in range(300)])
    kind = pa.dictionary(pa.int8(), pa.string())
    back = wrap(axis, np.array([299, 0]), None, kind)
    assert back.to_pylist() == ["v299", "v0"]
    assert back.type.index_type == pa.int32()


@pytest.mark.parametrize(
    ("attribute", "column"),
    [
        ({"type": "number", "domain": ["0", "9"]}, pa.array(["marker"])),
        ({"type": "number", "domain": ["0", "9"]}, pa.array([True])),
        ({"type": "number", "domain": ["0", "9"]}, pa.array([dt.date(2020, 1, 1)])),
        ({"type": "integer", "domain": ["0", "9"]}, pa.array([[1]])),
        ({"type": "boolean"}, pa.array(["marker"])),
        ({"type": "date", "domain": ["2020-01-01", "2021-01-01"]}, pa.array(["marker"])),
        ({"type": "datetime", "domain": ["2020-01-01", "2021-01-01"]}, pa.array(["marker"])),
        ({"type": "category", "values": ["a"]}, pa.array([["marker"]])),
        ({"type": "category", "values": ["a"]}, pa.array([b"\xffmarker"])),
    ],
    ids=str,
)
def test_a_column_of_another_kind_is_refused_without_its_cells(
    attribute: dict[str, Any], column: pa.Array
) -> None:
    """Arrow's own messages would quote the cell."""
    with pytest.raises(TableError) as caught:
        positions(_chunked(column), _axis(**attribute))
    assert "marker" not in str(caught.value)


def test_units_are_numbers_days_and_seconds() -> None:
    """Dictionaries are looked through, gaps stand as 0."""
    days = pa.array([0, None, 2], pa.date32())
    values, missing = in_units(days, "x", Type.DATE)
    assert values.tolist() == [0, 0, 2]
    assert missing is not None
    assert missing.tolist() == [False, True, False]
    moments = pa.array([1500, -1500], pa.timestamp("ms", tz="Asia/Tokyo"))
    assert in_units(moments, "x", Type.DATETIME)[0].tolist() == [1.5, -1.5]
    coded = pa.array([3, 1, 3]).dictionary_encode()
    assert in_units(coded, "x", Type.INTEGER)[0].tolist() == [3, 1, 3]
    assert in_units(pa.array(["1.5"]), "x", Type.NUMBER)[0].tolist() == [1.5]
    assert in_units(pa.array([7], pa.timestamp("s")), "x", Type.DATETIME)[0].tolist() == [7]
    assert in_units(pa.array([1], pa.date32()), "x", Type.DATETIME)[0].tolist() == [86_400]


def _back(axis: Axis, places: list[int], kind: pa.DataType) -> pa.Array:
    cells = storage(axis, np.array(places, np.int64), 1, kind)
    return wrap(axis, cells, None, kind)


def test_numerators_outside_take_the_nearest_end() -> None:
    """The noise may carry a sum anywhere."""
    cells = storage(WHOLE, np.array([-5, 10**12, 151]), np.array([3, 3, 3]), pa.int64())
    assert cells.tolist() == [0, 100, 50]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int8(), pa.int64()),
        (pa.uint8(), pa.int64()),
        (pa.int16(), pa.int16()),
        (pa.uint64(), pa.uint64()),
        (pa.float32(), pa.float32()),
        (pa.float16(), pa.float16()),
        (pa.string(), pa.string()),
        (pa.decimal128(3, 1), pa.decimal128(5, 1)),
        (pa.decimal128(9, 1), pa.decimal128(9, 1)),
        (pa.decimal256(50, 1), pa.decimal256(50, 1)),
    ],
    ids=str,
)
def test_a_type_too_narrow_for_the_domain_is_widened(
    kind: pa.DataType, expected: pa.DataType
) -> None:
    """By what the schema says, not by what the release happens to hold."""
    axis = _axis(type="integer", domain=["0", "1000"])
    for places in ([1], [1000]):
        back = _back(axis, places, kind)
        assert back.type == expected
        assert float(back.to_pylist()[0]) == places[0]
    signed = _axis(type="integer", domain=["-5", "5"])
    assert _back(signed, [0], pa.uint16()).to_pylist() == [-5]


def test_a_decimal_wider_than_128_bits() -> None:
    """Thirty-five places and a million before the point need more."""
    axis = _axis(type="number", domain=["0", "1000000"])
    back = _back(axis, [axis.steps], pa.decimal128(36, 35))
    assert back.type == pa.decimal256(42, 35)
    assert back.to_pylist() == [Decimal(1_000_000)]


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_nanoseconds_end_where_they_end(kind: str) -> None:
    """A domain beyond 2262 does not wrap around to 1700."""
    axis = _axis(type=kind, domain=["1500-01-01", "2900-01-01"])
    last = _back(axis, [axis.steps], pa.timestamp("ns")).cast(pa.timestamp("s"), safe=False)
    first = _back(axis, [0], pa.timestamp("ns")).cast(pa.timestamp("s"), safe=False)
    assert last.to_pylist()[0].year == 2262
    assert first.to_pylist()[0].year == 1677
    assert _back(axis, [axis.steps], pa.timestamp("us")).to_pylist()[0].year == 2900


def test_times_on_a_fine_grid_and_in_other_columns() -> None:
    """Milliseconds on a grid of a fiftieth of a second; days of a column of dates; text."""
    fine = _axis(type="datetime", domain=["1970-01-01", "1970-01-02"], grid="0.02")
    assert _back(fine, [1], pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [20]
    thirds = _axis(type="datetime", domain=["1970-01-01", "1970-01-02"], grid="0.0015")
    assert _back(thirds, [3], pa.timestamp("ms")).cast(pa.int64()).to_pylist() == [4]
    hours = _axis(type="datetime", domain=["1970-01-01", "1970-01-05"], grid="3600")
    assert _back(hours, [25], pa.date32()).to_pylist() == [dt.date(1970, 1, 2)]
    assert _back(hours, [25], pa.string()).to_pylist()[0].startswith("1970-01-02 01:00:00")


def test_an_integer_on_a_wide_grid() -> None:
    """Multiples of the step."""
    axis = _axis(type="integer", domain=["0", "1000"], grid="7")
    assert _back(axis, [3], pa.int64()).to_pylist() == [21]


def test_a_dictionary_of_numbers_lists_what_was_released() -> None:
    """In ascending order, whatever order the input had: none of its values stays behind."""
    kind = pa.dictionary(pa.int8(), pa.int64(), ordered=True)
    back = _back(WHOLE, [50, 3, 50], kind)
    assert back.type == kind
    assert back.dictionary.to_pylist() == [3, 50]
    assert back.to_pylist() == [50, 3, 50]


def test_a_column_without_a_type_stays_so() -> None:
    """All its cells are missing."""
    assert wrap(WHOLE, np.zeros(3), np.ones(3, np.bool_), pa.null()).type == pa.null()


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1.5, 2.5], pa.float32()),
        pa.array([1.5, 2.5], pa.float64()),
        pa.array(np.array([1.5], np.float16)),
        pa.array([1, 2, 3], pa.uint8())[1:],
        pa.array([True, False, True, True])[1:],
        pa.array([], pa.int64()),
        pa.array([], pa.bool_()),
    ],
    ids=lambda a: str(a.type),
)
def test_arrow_and_numpy_share_their_memory(array: pa.Array) -> None:
    """Of every width, sliced, and empty."""
    assert numpy_array(array).tolist() == array.to_pylist()
    assert arrow_array(numpy_array(array)).to_pylist() == array.to_pylist()


def test_gaps_are_seen_in_slices() -> None:
    """Offsets count."""
    assert nulls(pa.array([1, None, 3, None])[1:]).tolist() == [True, False, True]
    assert arrow_array(np.arange(2), np.array([True, False])).to_pylist() == [None, 1]
    assert text_array(["é", ""]).to_pylist() == ["é", ""]
    assert texts(pa.array([1.0, -0.0, float("nan"), None])) == ["1", "0", None, None]
