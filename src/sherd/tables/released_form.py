"""A table as it is released: plain types, and nothing but names and cells.

Texts are written one after the other, a missing one as an empty one, in no more memory than they
need. Arrow's own cast of labels doubles its buffers as they grow, and filling gaps copies them once
more; of a large table that is several times the table.

>>> released_form(pa.table({"x": pa.array(["b"]).dictionary_encode()})).schema.field("x").type
DataType(string)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.canonical_form import finite, instants, is_text, whole
from sherd.tables.coded_columns import holds_numbers
from sherd.tables.coding import arrow_array, nulls, numpy_array, text_array, texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

AT_ONCE = 2**16
"""Rows that are written out at once."""

MOST_BYTES = 2**31 - 1
"""What one array of texts can hold."""


def spelled(coded: pa.DictionaryArray) -> list[pa.Array]:
    """The texts that codes stand for, in as few arrays as can hold them.

    >>> codes = pa.array([1, None, 0], pa.int8())
    >>> column = pa.DictionaryArray.from_arrays(codes, pa.array(["no", "yes"]))
    >>> [part.to_pylist() for part in spelled(column)]
    [['yes', None, 'no']]
    """
    words = [*texts(coded.dictionary), None]
    nothing = len(words) - 1
    places = np.where(nulls(coded.indices), nothing, numpy_array(coded.indices))
    lengths = np.array([len((word or "").encode()) for word in words], np.int64)
    ends = np.cumsum(lengths[places])
    if len(places) > 1 and ends[-1] > MOST_BYTES:
        half = len(coded) // 2
        return [*spelled(coded[:half]), *spelled(coded[half:])]
    offsets = np.zeros(len(places) + 1, np.int32)
    offsets[1:] = ends
    del ends
    table = text_array([word or "" for word in words])
    letters = np.empty(offsets[-1], np.uint8)
    for start in range(0, len(places), AT_ONCE):
        some = table.take(arrow_array(places[start : start + AT_ONCE]))
        size = offsets[start + len(some)] - offsets[start]
        letters[offsets[start] : offsets[start] + size] = np.frombuffer(
            some.buffers()[2], np.uint8, size
        )
    gaps = np.array([word is None for word in words])[places]
    return [_texts(gaps, pa.py_buffer(offsets), pa.py_buffer(letters))]


def emptied(plain: pa.Array) -> pa.Array:
    """Texts without what may stand where one is missing."""
    gaps = nulls(plain)
    if plain.offset or (gaps.any() and _lengths(plain)[gaps].any()):
        plain = pc.fill_null(plain, "").take(arrow_array(np.arange(len(plain))))
    return _texts(gaps, *plain.buffers()[1:])


def _lengths(plain: pa.Array) -> NDArray[np.int32]:
    offsets = np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1)
    return offsets[1:] - offsets[:-1]


def _texts(gaps: NDArray[np.bool_], offsets: pa.Buffer, letters: pa.Buffer) -> pa.Array:
    bits = pa.py_buffer(np.packbits(~gaps, bitorder="little")) if gaps.any() else None
    return pa.Array.from_buffers(pa.string(), len(gaps), [bits, offsets, letters])


def released_form(table: pa.Table, *, coded: bool = False) -> pa.Table:
    """A table as it is released: plain types, and nothing but names and cells.

    Labels are text and no dictionary, whole numbers have 64 bits, other numbers are floats,
    times are in UTC without a zone; where a cell is missing, its memory holds nothing. With
    ``coded``, codes of numbers and times (``sherd.tables.coded_columns``) stay codes.
    """
    columns = [
        column if coded and holds_numbers(column.type) else _bare(column)
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _bare(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_dictionary(column.type):
        if is_text(column.type.value_type):
            parts = [part for chunk in column.chunks for part in spelled(chunk)]
            return pa.chunked_array(parts, pa.string())
        column = column.cast(column.type.value_type)
    kind, test = column.type, pa.types
    if is_text(kind) or test.is_null(kind):
        parts = [emptied(chunk) for chunk in column.cast(pa.string()).chunks]
        return pa.chunked_array(parts, pa.string())
    if test.is_floating(kind) or test.is_decimal(kind):
        column = finite(column.cast(pa.float64(), safe=False))
    elif test.is_integer(kind):
        column = whole(column)
    elif test.is_timestamp(kind):
        column = instants(column)
    elif test.is_date(kind):
        column = column.cast(pa.date32())
    elif not test.is_boolean(kind):
        return column  # writing it is refused, with a name
    return pa.chunked_array([_rebuilt(chunk) for chunk in column.chunks], column.type)


def _rebuilt(chunk: pa.Array) -> pa.Array:
    """The cells with zeros where one is missing."""
    kind = chunk.type
    stored = kind
    if pa.types.is_date32(kind):
        stored = pa.int32()
    elif pa.types.is_timestamp(kind):
        stored = pa.int64()
    plain = chunk.view(stored) if stored != kind else chunk
    gaps = nulls(plain)
    cells = numpy_array(plain)
    if not gaps.any():
        return arrow_array(cells).view(kind)
    cells = np.where(gaps, np.zeros(1, cells.dtype), cells)
    return arrow_array(cells, gaps).view(kind)
