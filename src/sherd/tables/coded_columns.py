"""Columns as short codes into the list of their values: the form in which owners deliver.

A masked column has few values, and each of them many times: a byte or two tell which one a cell
has. Everything about the form follows from the cells that are released: the list is sorted and has
every value once, codes are as short as the list allows, and a column that would not be half as
long stays plain. So a coded column says what the plain one says and nothing else, and equal
columns are equal bytes. (Arrow's own dictionaries list values as they appeared, or as an input
listed them.)

Cells are told apart by their bits, so that they come back as they were, a negative zero included.

A method that gives many rows one value knows which row has which, and hands codes on
(``Coding``); what it does not know is looked up in a hash table, which takes ten times as long.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.coding import arrow_array, nulls, numpy_array

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORM = "coded.arrows"
"""How the name of a file in this form ends, after a point."""

LEAST_ROWS = 1 << 12
"""The rows of a table below which its columns stay plain: there is nothing to gain."""

_BITS = {
    pa.int64(): pa.int64(),
    pa.float64(): pa.int64(),
    pa.timestamp("us"): pa.int64(),
    pa.date32(): pa.int32(),
}
"""The types of cells that are coded, and the whole numbers that their bits are."""

_REPEATED = 100
"""How many of the first ``LEAST_ROWS`` cells must repeat others: of the most values that codes can
tell apart, in a random order, about 126 do."""

_CODES = ((1 << 8, np.uint8), (1 << 16, np.uint16))
"""How many values each width of code can tell apart."""


def coded(table: pa.Table) -> pa.Table:
    """The table in released form, those of its columns coded that get shorter by half.

    >>> plain = pa.table({"a": [2.5, 1.5, 2.5, 2.5] * 1024, "b": range(4096)})
    >>> [str(kind) for kind in coded(plain).schema.types]
    ['dictionary<values=double, indices=uint8, ordered=0>', 'int64']
    >>> coded(plain)["a"].chunk(0).dictionary.to_pylist()
    [1.5, 2.5]
    """
    if table.num_rows < LEAST_ROWS:
        return table
    return pa.table([_coded(column) for column in table.columns], names=table.column_names)


@dataclass(frozen=True, kw_only=True)
class Coding:
    """The values of a column in order, and the code of each of the groups that share one."""

    values: pa.Array
    codes: NDArray[Any]

    @classmethod
    def of(cls, cells: pa.Array, rows: int) -> Coding | None:
        """The codes of groups of rows by the released cell of each; None: stay plain.

        >>> coding = Coding.of(pa.array([2.5, 1.5, 2.5]), LEAST_ROWS)
        >>> coding.codes.tolist(), coding.values.to_pylist()
        ([1, 0, 1], [1.5, 2.5])
        """
        stored = _BITS.get(cells.type)
        if stored is None or rows < LEAST_ROWS or cells.null_count or not len(cells):
            return None
        values, codes = np.unique(numpy_array(cells.view(stored)), return_inverse=True)
        width = _width(len(values))
        if width is None or rows * width.itemsize + values.nbytes > _room(rows, stored):
            return None
        listed = arrow_array(values).view(cells.type)
        return cls(values=listed, codes=codes.reshape(-1).astype(width))

    def column(self, codes: NDArray[Any], gaps: NDArray[np.bool_] | None) -> pa.Array | None:
        """The column of these codes, one a row and every one used; None: stay plain.

        Where a cell is missing, its code is 0.
        """
        some, none = codes[:LEAST_ROWS], 0
        if gaps is not None:
            some, none = some[~gaps[:LEAST_ROWS]], int(gaps[:LEAST_ROWS].any())
        if _is_varied(int(np.count_nonzero(np.bincount(some))) + none):
            return None
        return pa.DictionaryArray.from_arrays(arrow_array(codes, gaps), self.values)


def _room(rows: int, stored: pa.DataType) -> int:
    """The bytes that codes and list may take together: half of those of the cells."""
    return rows * int(stored.bit_width) // 16


def _is_varied(count: int) -> bool:
    """Whether the first cells have so many values that a column is not worth looking at."""
    return count > LEAST_ROWS - _REPEATED


def _coded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if holds_numbers(column.type):
        return column  # by the method, which knew the codes
    kind, rows = column.type, len(column)
    stored = _BITS.get(kind)
    if stored is None:
        return column
    parts = [chunk.view(stored) for chunk in column.chunks]
    # A look at some cells spares counting those of a column that has too many values.
    if _is_varied(len(pc.unique(pa.chunked_array(parts).slice(0, LEAST_ROWS)))):
        return column
    whole = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    encoded = whole.dictionary_encode()
    values, width = numpy_array(encoded.dictionary), _width(len(encoded.dictionary))
    if width is None or rows * width.itemsize + values.nbytes > _room(rows, stored):
        return column
    order = np.argsort(values)
    places = np.empty(len(values), width)
    places[order] = np.arange(len(values), dtype=width)
    indices, gaps = encoded.indices, None
    if whole.null_count:
        gaps = nulls(whole)
        indices = pc.fill_null(indices, 0)
        if not len(values):
            return column
    codes = places[numpy_array(indices)]
    if gaps is not None:
        codes[gaps] = 0
    listed = arrow_array(values[order]).view(kind)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(arrow_array(codes, gaps), listed)])


def _width(count: int) -> np.dtype[Any] | None:
    """The shortest code that tells so many values apart; None where there is none."""
    return next((np.dtype(kind) for most, kind in _CODES if count <= most), None)


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a type is that of codes whose list holds anything but texts."""
    if not pa.types.is_dictionary(kind):
        return False
    inner = kind.value_type
    return not (pa.types.is_string(inner) or pa.types.is_large_string(inner))


def is_coded(column: pa.ChunkedArray) -> bool:
    """Whether a column that somebody else made is coded in this very form.

    One list for all of it, sorted, every value once and used; codes as short as can be, and zero
    where a cell is missing. The column was validated, so that every code is one of the list.
    """
    kind = column.type
    if not holds_numbers(kind) or kind.ordered or kind.value_type not in _BITS:
        return False
    if not column.num_chunks:
        return False
    listed = column.chunk(0).dictionary
    width = _width(len(listed))
    if width is None or kind.index_type != pa.from_numpy_dtype(width) or listed.null_count:
        return False
    values = numpy_array(listed.view(_BITS[kind.value_type]))
    if not np.all(values[1:] > values[:-1]):
        return False
    times = np.zeros(len(values), np.int64)
    for chunk in column.chunks:
        codes = numpy_array(chunk.indices)
        if chunk.null_count:
            gaps = nulls(chunk.indices)
            if codes[gaps].any():
                return False
            codes = codes[~gaps]
        times += np.bincount(codes, minlength=len(values))
    same = all(_is_same(chunk.dictionary, values) for chunk in column.chunks[1:])
    return same and bool(times.all())


def _is_same(listed: pa.Array, values: NDArray[Any]) -> bool:
    plain = listed.view(_BITS[listed.type])
    return not plain.null_count and np.array_equal(numpy_array(plain), values)
