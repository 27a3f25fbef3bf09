"""Measured values on public cells, so that no published boundary is somebody's value.

A published range ends where the next one begins. If ranges followed the values in the table, each
end would be some person's value. So values are first put into cells that the schema decides: at
most ``CELLS`` of equal width over the declared domain, which are the steps of its grid where that
has fewer. Without a domain the value's own leading digits decide, or its month; other rows still
have no say.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.methods.slicing.attribute_codes import Coded, encode
from sherd.tables.axis import Axis
from sherd.tables.coding import arrow_array, nulls, numpy_array, positions, storage, wrap
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute

CELLS = 1000
"""Cells of a declared domain, where its grid has as many steps."""

DIGITS = 2
"""How many leading digits tell values apart where no domain is declared."""


def encode_on_cells(
    column: pa.ChunkedArray, attribute: Attribute, marks: Sequence[str] = ()
) -> Coded:
    """The codes of an attribute whose values are told apart by public cells only."""
    coded = encode(on_public_cells(column, attribute), attribute, marks)
    present = [value for value in coded.values if value is not None]
    if not attribute.type.measured or not present:
        return coded
    if attribute.domain is not None:
        gaps = coded.values[: len(coded.values) - len(present)]
        kind = column.type
        return replace(coded, values=(*gaps, *_parted(pa.array(present, kind), attribute)))
    return replace(coded, bounds=(present[0], _end_of(present[-1])))


def _parted(starts: pa.Array, attribute: Attribute) -> list[Any]:
    """Where ranges begin: half-way between the cells that occur, the first where it does.

    At the beginning of the cell that occurs, a range would begin at somebody's value wherever a
    cell is one value wide.
    """
    axis = Axis.of(attribute)
    place, _ = positions(pa.chunked_array([starts]), axis)
    cells, width = _cells(axis)
    cell = place * cells // width
    cell[1:] = (cell[:-1] + 1 + cell[1:]) // 2
    return list(_beginnings(cell, axis, starts.type).to_pylist())


def _cells(axis: Axis) -> tuple[int, int]:
    """How many cells an axis has, and how many positions."""
    width = axis.steps + 1
    return min(CELLS, width), width


def _beginnings(
    cell: NDArray[np.int64], axis: Axis, kind: pa.DataType, gaps: NDArray[np.bool_] | None = None
) -> pa.Array:
    """The value at which each of these cells begins."""
    cells, width = _cells(axis)
    return wrap(axis, storage(axis, -(-cell * width // cells), 1, kind), gaps, kind)


def _end_of(start: Any) -> Any:
    """The last value of a cell that has no domain to end it."""
    if isinstance(start, date):
        following = (start.replace(day=1) + timedelta(days=32)).replace(day=1)
        return following - (timedelta(microseconds=1) if hasattr(start, "hour") else timedelta(1))
    size = np.floor(np.log10(max(abs(start), 1)))
    width = 10.0 ** max(size - DIGITS + 1, 0.0)
    return start + int(width) - 1 if isinstance(start, int) else start + width


def on_public_cells(column: pa.ChunkedArray, attribute: Attribute) -> pa.ChunkedArray:
    """The column with every measured value moved to the beginning of its cell."""
    if not attribute.type.measured:
        return column
    if attribute.domain is None:
        return _by_own_digits(column, attribute)
    axis = Axis.of(attribute)
    place, gaps = positions(column, axis)
    cells, width = _cells(axis)
    cell = place * cells // width
    moved = _beginnings(cell, axis, column.type, gaps if gaps.any() else None)
    return pa.chunked_array([moved])


def _by_own_digits(column: pa.ChunkedArray, attribute: Attribute) -> pa.ChunkedArray:
    if attribute.type in (Type.DATE, Type.DATETIME):
        return pc.floor_temporal(column, unit="month").cast(column.type)
    joined = column.cast(pa.float64(), safe=False).combine_chunks()
    whole = joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)
    gaps = nulls(whole)
    values = np.where(gaps, 0.0, numpy_array(whole))
    size = np.floor(np.log10(np.maximum(np.abs(values), 1.0)))
    width = 10.0 ** np.maximum(size - DIGITS + 1, 0.0)
    moved = np.floor(values / width) * width
    return pa.chunked_array([arrow_array(moved, gaps if gaps.any() else None)]).cast(column.type)
