"""Values on the grid come back exactly, in every type, however the column is cut."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sherd.tables.axis import Axis
from sherd.tables.coding import positions, storage, wrap
from sherd.tables.schema import Attribute, Type

FEW = settings(max_examples=60, deadline=None)


def _back(column: pa.ChunkedArray, axis: Axis) -> list[Any]:
    """Coded and decoded, with a place on the axis in between."""
    found, gaps = positions(column, axis)
    present = found[~gaps]
    assert ((present >= 0) & (present <= axis.steps)).all()
    cells = storage(axis, found, 1, column.type)
    back = wrap(axis, cells, gaps if gaps.any() else None, column.type)
    assert back.type == column.type
    result: list[Any] = back.to_pylist()
    return result


@st.composite
def _chunked(
    draw: st.DrawFn, values: Any, kind: pa.DataType, coded: bool = False
) -> pa.ChunkedArray:
    """A column with gaps, cut into chunks that are slices with offsets."""
    cells = draw(st.lists(st.one_of(st.none(), values), min_size=1, max_size=12))
    padded = pa.array([*cells[:3], *cells, *cells[:2]], kind)
    if coded:
        padded = padded.dictionary_encode()
    whole = padded.slice(min(3, len(cells)), len(cells))
    cut = draw(st.integers(0, len(cells)))
    return pa.chunked_array([whole.slice(0, cut), whole.slice(cut)], whole.type)


INTEGERS = {
    str(kind): (kind, *(int(end) for end in (np.iinfo(str(kind)).min, np.iinfo(str(kind)).max)))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
}


@FEW
@given(st.data(), st.sampled_from(sorted(INTEGERS)), st.booleans())
def test_whole_numbers(data: st.DataObject, name: str, coded: bool) -> None:
    """Over the whole range of the narrow types, plain or behind a dictionary."""
    kind, low, high = INTEGERS[name]
    axis = Axis.of(Attribute(name="x", type=Type.INTEGER, domain=(Decimal(low), Decimal(high))))
    column = data.draw(_chunked(st.integers(low, high), kind, coded))
    assert _back(column, axis) == column.to_pylist()


@FEW
@given(st.data(), st.sampled_from([pa.int64(), pa.uint64()]), st.integers(-(2**50), 2**50))
def test_wide_whole_numbers(data: st.DataObject, kind: pa.DataType, start: int) -> None:
    """Anywhere a float still tells neighbours apart; beyond the domain they are clamped."""
    low = abs(start) if kind == pa.uint64() else start
    high = low + 10**6
    axis = Axis.of(Attribute(name="x", type=Type.INTEGER, domain=(Decimal(low), Decimal(high))))
    limits = np.iinfo(str(kind))
    values = st.one_of(st.integers(low, high), st.integers(int(limits.min), int(limits.max)))
    column = data.draw(_chunked(values, kind))
    expected = [None if v is None else min(max(v, low), high) for v in column.to_pylist()]
    assert _back(column, axis) == expected


@FEW
@given(st.data(), st.integers(-8, 10), st.integers(-(10**6), 10**6), st.integers(1, 10**7))
def test_numbers(data: st.DataObject, exponent: int, low: int, width: int) -> None:
    """Decimal fractions of any size, also below 0: the very float that went in."""
    unit = Decimal(1).scaleb(exponent)
    domain = (low * unit, (low + width) * unit)
    axis = Axis.of(Attribute(name="x", type=Type.NUMBER, domain=domain))
    values = st.integers(low, low + width).map(lambda i: float(i * unit))
    column = data.draw(_chunked(values, pa.float64()))
    assert _back(column, axis) == column.to_pylist()


@FEW
@given(st.data(), st.decimals("0.001", "7", places=3), st.integers(-1000, 1000))
def test_numbers_on_a_declared_grid(data: st.DataObject, grid: Decimal, low: int) -> None:
    """Whatever the step: a multiple of it keeps its place, and so its value."""
    domain = (low * grid, (low + 500) * grid)
    axis = Axis.of(Attribute(name="x", type=Type.NUMBER, domain=domain, grid=grid))
    places = data.draw(st.lists(st.integers(0, 500), min_size=1))
    column = pa.chunked_array([pa.array([float((low + place) * grid) for place in places])])
    found, _ = positions(column, axis)
    assert found.tolist() == places
    assert _back(column, axis) == column.to_pylist()


@FEW
@given(st.data(), st.integers(0, 6), st.sampled_from(["128", "256"]))
def test_decimals(data: st.DataObject, scale: int, bits: str) -> None:
    """Exactly, with their places."""
    kind = (pa.decimal128 if bits == "128" else pa.decimal256)(18, scale)
    unit = Decimal(1).scaleb(-scale)
    axis = Axis.of(Attribute(name="x", type=Type.NUMBER, domain=(-(10**9) * unit, 10**9 * unit)))
    values = st.integers(-(10**9), 10**9).map(lambda i: i * unit)
    column = data.draw(_chunked(values, kind))
    assert _back(column, axis) == column.to_pylist()


@FEW
@given(st.data(), st.sampled_from([pa.date32(), pa.date64(), pa.timestamp("s")]), st.booleans())
def test_dates(data: st.DataObject, kind: pa.DataType, coded: bool) -> None:
    """From the first to the last year a person writes, whatever column they stand in."""
    ends = dt.date(1, 1, 1), dt.date(9999, 12, 31)
    axis = Axis.of(Attribute(name="x", type=Type.DATE, domain=ends))
    values: Any = st.dates(*ends)
    if pa.types.is_timestamp(kind):
        values = values.map(lambda d: dt.datetime(d.year, d.month, d.day))  # noqa: DTZ001
    column = data.draw(_chunked(values, kind, coded))
    assert _back(column, axis) == column.to_pylist()


ZONES = st.sampled_from([None, "UTC", "Europe/Madrid", "Asia/Kathmandu", "-03:30"])


@FEW
@given(st.data(), st.sampled_from(["s", "ms", "us", "ns"]), ZONES)
def test_times(data: st.DataObject, unit: str, zone: str | None) -> None:
    """To the second, in every unit and zone, before and after 1970."""
    ends = (dt.datetime(1700, 1, 1, tzinfo=dt.UTC), dt.datetime(2200, 1, 1, tzinfo=dt.UTC))
    axis = Axis.of(Attribute(name="x", type=Type.DATETIME, domain=ends))
    low, high = (int(end.timestamp()) for end in ends)
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = st.integers(low, high).map(lambda second: second * per_second)
    whole = data.draw(_chunked(ticks, pa.int64()))
    column = whole.cast(pa.timestamp(unit, tz=zone))
    found, gaps = positions(column, axis)
    cells = storage(axis, found, 1, column.type)
    back = wrap(axis, cells, gaps if gaps.any() else None, column.type)
    assert back.type == column.type
    assert back.cast(pa.int64()).to_pylist() == whole.to_pylist()


@FEW
@given(st.data(), st.booleans())
def test_booleans_and_labels(data: st.DataObject, coded: bool) -> None:
    """Bits with offsets; labels of any text, plain or behind a dictionary."""
    flags = data.draw(_chunked(st.booleans(), pa.bool_()))
    assert _back(flags, Axis.of(Attribute(name="x", type=Type.BOOLEAN))) == flags.to_pylist()
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    labels = data.draw(st.lists(text, min_size=1, unique=True))
    axis = Axis.of(Attribute(name="x", type=Type.CATEGORY, values=tuple(labels)))
    column = data.draw(_chunked(st.sampled_from(labels), pa.string(), coded))
    assert _back(column, axis) == column.to_pylist()


@FEW
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1),
    st.sampled_from([pa.float64(), pa.float32()]),
)
def test_any_float_lands_on_the_axis(values: list[float], kind: pa.DataType) -> None:
    """Whatever it is: clamped, rounded to the nearest place, or missing."""
    axis = Axis.of(Attribute(name="x", type=Type.NUMBER, domain=(Decimal(-1), Decimal(1))))
    with np.errstate(over="ignore"):
        column = pa.chunked_array([pa.array(np.array(values).astype(kind.to_pandas_dtype()))])
    back = _back(column, axis)
    for before, after in zip(column.to_pylist(), back, strict=True):
        if before != before:
            assert after is None
        else:
            assert abs(after - min(max(before, -1), 1)) <= float(axis.step)
