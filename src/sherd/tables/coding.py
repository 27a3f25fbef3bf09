"""Coding: Arrow columns to positions on an axis and back to the column's own type.

Encoding works block by block, so that its extra memory does not grow with the table.
Values outside the axis take its nearest end, silently: refusing one would be an output
that depends on the data (``prepare`` may refuse before anything is planned).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError
from sherd.tables.attribute import Type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.tables.axis import Axis

BLOCK = 1 << 18
"""Rows coded at once: large enough that threads seldom wait for each other between numpy's
calls, small beside the table."""
LONG_BLOCK = 1 << 20


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def encode(
    column: pa.ChunkedArray,
    axis: Axis,
    missing_values: Sequence[str] = (),
    out: NDArray[np.int64] | None = None,
) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.bool_] | None]]:
    """Blocks of (first row, positions from 0 to axis.steps, which cells are missing or None).

    With ``out``, an item a row, a block's positions lie there, at its rows.
    """
    start = 0
    table = _LabelTable(axis, missing_values) if axis.labels is not None else None
    for part in column.chunks:
        chunk = part if table is None else table.dictionary(part)
        # Numbers that are worked on in place need no other memory, and longer calls.
        plain = part.type in (pa.float64(), pa.int64()) and not part.null_count
        size = LONG_BLOCK if out is not None and table is None and plain else BLOCK
        for offset in range(0, len(chunk), size):
            block = chunk.slice(offset, size)
            rows = slice(start, start + len(block))
            into = np.empty(len(block), np.int64) if out is None else out[rows]
            if table is not None:
                missing = table.positions(block, into)
            else:
                missing = _measured(block, axis, into)
            yield start, into, missing
            start += len(block)


def positions(
    column: pa.ChunkedArray, axis: Axis, missing_values: Sequence[str] = ()
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The whole column as positions from 0 to axis.steps, and which cells are missing."""
    places = np.empty(len(column), np.int64)
    gaps = np.zeros(len(column), np.bool_)
    for start, block, missing in encode(column, axis, missing_values):
        places[start : start + len(block)] = block
        if missing is not None:
            gaps[start : start + len(block)] = missing
    return places, gaps


_UNLISTED = -2


class _LabelTable:
    """Labels to positions, for one axis: one look-up a distinct label, not a cell."""

    def __init__(self, axis: Axis, missing_values: Sequence[str]) -> None:
        self.axis = axis
        self.missing_values = frozenset(missing_values)
        self.position = {label: i for i, label in enumerate(axis.labels or ())}
        self.codes: NDArray[np.int64] = np.empty(0, np.int64)

    def dictionary(self, chunk: pa.Array) -> pa.Array:
        """The chunk dictionary-encoded, with the codes of its dictionary looked up."""
        try:
            if not pa.types.is_dictionary(chunk.type):
                chunk = chunk.dictionary_encode()
            labels = texts(chunk.dictionary)
        except pa.ArrowNotImplementedError:
            raise unreadable(self.axis.name, self.axis.type, chunk.type) from None
        codes = [self._code(label) for label in labels]
        # One entry more, the last, for cells without a value.
        self.codes = np.array([*codes, -1], np.int64)
        return chunk

    def _code(self, label: str | None) -> int:
        if label is None or (label in self.missing_values and label not in self.position):
            return -1
        code = self.position.get(label, self.axis.other)
        # A dictionary may hold labels that no cell has: only a cell's label is refused.
        return _UNLISTED if code is None else code

    def positions(self, block: pa.Array, into: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Write positions to ``into``; returns which cells are missing, or None."""
        indices = numpy_array(block.indices)
        if block.indices.null_count:
            indices = np.where(nulls(block.indices), len(self.codes) - 1, indices)
        np.take(self.codes, indices, out=into, mode="clip")  # they are in range, so none is
        missing = into < 0
        if missing.any() and (into == _UNLISTED).any():
            raise TableError(
                f"the attribute '{self.axis.name}' has labels that its schema does not list",
                must="one of the listed values",
                do="add them to `values`, name one as `other`, or set `outside: drop`",
            )
        return missing if missing.any() else None


def texts(values: pa.Array) -> list[str | None]:
    """Values as the texts that a schema's labels are written in."""
    if pa.types.is_boolean(values.type):
        return [None if v is None else ("true" if v else "false") for v in values.to_pylist()]
    if pa.types.is_floating(values.type):
        return [
            None if v is None or v != v else (str(int(v)) if v.is_integer() else repr(v))
            for v in values.to_pylist()
        ]
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        try:
            values = values.cast(pa.string())
        except pa.ArrowInvalid:
            raise TableError(
                "a category column holds bytes that are not UTF-8 text",
                do="convert the column to text first",
            ) from None
    cells: list[str | None] = values.to_pylist()
    return cells


_UNIT = 2.0**52
"""From here on floats are whole numbers, and their last 52 bits say by how much they exceed it."""


def _measured(block: pa.Array, axis: Axis, into: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Write positions to ``into``, in its own memory; returns which cells are missing, or None."""
    numbers, missing = in_units(block, axis.name, axis.type)
    per_unit = 1 / axis.step
    if numbers.dtype == np.int64 and per_unit == 1:
        np.clip(numbers, axis.low, axis.high, out=into)
        into -= axis.low
        return missing
    scaled = into.view(np.float64)
    with np.errstate(over="ignore"):  # a product beyond the floats is infinite, and clipped
        np.multiply(numbers, float(per_unit), out=scaled)
    np.rint(scaled, out=scaled)
    np.clip(scaled, axis.low, axis.high, out=scaled)
    # Whole by now, and sums at most 2**36 above the unit (see ``Axis``): nothing is rounded.
    if abs(axis.low) < 2**52:
        scaled += _UNIT - axis.low
    else:
        scaled -= axis.low
        scaled += _UNIT
    # Clipped, only what is not a number is not finite, and then neither is the sum.
    if np.isnan(np.add.reduce(scaled)):
        gaps = np.isnan(scaled)
        scaled[gaps] = _UNIT
        missing = gaps if missing is None else missing | gaps
    into -= np.float64(_UNIT).view(np.int64)
    return missing


def unreadable(name: str, declared: Type, kind: pa.DataType) -> TableError:
    """The error of a column that its declared type does not fit; quotes no cell."""
    return TableError(
        f"the attribute '{name}' cannot be read as {declared}",
        must=f"values of type {declared}",
        got=f"a column of type {kind}",
        do="correct the type in the schema, or convert the column",
    )


def in_units(
    block: pa.Array, name: str, declared: Type
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """A block in its type's unit (numbers, days, seconds) as int64 or float64, and its gaps.

    Where a cell is missing stands 0; not-a-number stays as it is.
    """
    kind = block.type
    try:
        if pa.types.is_dictionary(kind):
            block = block.dictionary_decode()
        block = _in_unit(block, declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        # Arrow's own message quotes the cell it stumbled over.
        raise unreadable(name, declared, kind) from None
    if block.null_count:
        missing = nulls(block)
        return np.where(missing, 0, numpy_array(block)), missing
    return numpy_array(block), None


def _in_unit(block: pa.Array, declared: Type) -> pa.Array:
    kind = block.type
    if declared is Type.BOOLEAN:
        return block.cast(pa.bool_()).cast(pa.int64())
    if declared is Type.DATE:
        return block.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if declared is Type.DATETIME:
        if not pa.types.is_timestamp(kind):
            block = block.cast(pa.timestamp("us"))
        per_second = _PER_SECOND[block.type.unit]
        ticks = block.cast(pa.int64())
        return (
            ticks
            if per_second == 1
            else pc.divide(ticks.cast(pa.float64(), safe=False), float(per_second))
        )
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        raise pa.ArrowInvalid("not a number")
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return block.cast(pa.int64())
    return block.cast(pa.float64(), safe=False)


def storage(
    axis: Axis, numerators: NDArray[np.int64], size: NDArray[np.int64] | int, kind: pa.DataType
) -> NDArray[Any]:
    """Positions numerators/size above the axis's low end, as cells in the column's storage.

    Numerators outside the axis take its nearest end. Everything but numbers is rounded to
    the nearest whole position, last.
    """
    inside = np.clip(numerators, 0, axis.steps * np.asarray(size, np.int64))
    places = inside / size
    places += axis.low
    step = axis.step
    if axis.type is Type.NUMBER:
        # Dividing by a power of ten is correctly rounded, multiplying by its inverse is not:
        # a value that met no noise comes back as the very number that went in.
        return places * float(step.numerator) / float(step.denominator)
    whole = np.rint(places)
    if axis.type.labelled:
        return whole.astype(np.int32)
    if axis.type in (Type.DATE, Type.DATETIME):
        return _ticks(axis, whole, kind)
    if step == 1:
        return whole.astype(np.int64)
    return np.rint(whole * float(step)).astype(np.int64)


def _ticks(axis: Axis, whole: NDArray[np.float64], kind: pa.DataType) -> NDArray[np.int64]:
    """Places on an axis of times in the column's own ticks (days for dates).

    A column that counts nanoseconds ends in 2262, whatever the declared domain: places
    beyond take the last one it can hold.
    """
    per_second = _PER_SECOND[kind.unit if pa.types.is_timestamp(kind) else "us"]
    per_unit = 1 if axis.type is Type.DATE else per_second
    ticks = axis.step * per_unit
    most = (2**63 - 1) // (86_400 * per_second // per_unit if axis.type is Type.DATE else 1)
    room = int(most / ticks)
    if max(-axis.low, axis.high) > room:
        whole = np.clip(whole, -room, room)
    if ticks.denominator == 1:
        return whole.astype(np.int64) * int(ticks)
    return np.rint(whole * float(ticks)).astype(np.int64)


_NUMPY_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def numpy_array(array: pa.Array) -> NDArray[Any]:
    """An Arrow array of numbers or booleans as numpy, numbers without a copy.

    Where a cell is null anything may stand. ``Array.to_numpy`` would do, but imports pandas
    (half a second).
    """
    data = array.buffers()[1] or b""
    if pa.types.is_boolean(array.type):
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[array.offset : array.offset + len(array)].view(np.bool_)
    kind = np.dtype(_NUMPY_NAMES.get(str(array.type), str(array.type)))
    return np.frombuffer(data, kind, len(array), array.offset * kind.itemsize)


def nulls(array: pa.Array) -> NDArray[np.bool_]:
    """Which cells of an Arrow array are null."""
    missing: NDArray[np.bool_] = numpy_array(array.is_null())
    return missing


def arrow_array(cells: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> pa.Array:
    """Numbers as an Arrow array that shares their memory.

    ``pyarrow.array`` would do, but imports pandas (half a second) to see whether it is given
    one of its kinds.
    """
    validity = None
    if missing is not None:
        validity = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = pa.from_numpy_dtype(cells.dtype)
    if cells.dtype == np.bool_:
        data = pa.py_buffer(np.packbits(cells, bitorder="little"))
    else:
        data = pa.py_buffer(np.ascontiguousarray(cells))
    return pa.Array.from_buffers(kind, len(cells), [validity, data])


def text_array(texts: Sequence[str]) -> pa.Array:
    """Texts as an Arrow array; like ``arrow_array`` without waking pandas."""
    encoded = [text.encode() for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def wrap(
    axis: Axis, cells: NDArray[Any], missing: NDArray[np.bool_] | None, kind: pa.DataType
) -> pa.Array:
    """Cells in storage form as an Arrow array of the column's own type.

    Where the schema's domain is wider than that type, the next type that holds it is taken:
    which one depends on the schema alone.
    """
    if pa.types.is_null(kind):
        return pa.nulls(len(cells))  # a column without any value, so without any cluster
    if axis.labels is not None:
        return _labels(axis, cells, missing, kind)
    if pa.types.is_dictionary(kind):
        return _dictionary(wrap(axis, cells, missing, kind.value_type), kind)
    if axis.type is Type.BOOLEAN:
        return arrow_array(cells.astype(np.bool_), missing).cast(kind)
    if axis.type is Type.DATE:
        return arrow_array(cells.astype(np.int32), missing).cast(pa.date32()).cast(kind)
    if axis.type is Type.DATETIME:
        stamp = kind if pa.types.is_timestamp(kind) else pa.timestamp("us")
        return arrow_array(cells, missing).cast(stamp).cast(kind, safe=False)
    return _numeric(axis, cells, missing, kind)


def _numeric(
    axis: Axis, cells: NDArray[Any], missing: NDArray[np.bool_] | None, kind: pa.DataType
) -> pa.Array:
    lowest, highest = axis.low * axis.step, axis.high * axis.step
    if pa.types.is_decimal(kind):
        digits = len(str(int(max(-lowest, highest)))) + kind.scale
        if digits > kind.precision:
            wider = pa.decimal128 if digits <= 38 else pa.decimal256
            kind = wider(digits, kind.scale)
        exact = pc.round(arrow_array(cells, missing).cast(pa.float64()), ndigits=kind.scale)
        return exact.cast(kind)
    if pa.types.is_integer(kind):
        whole = cells if cells.dtype == np.int64 else np.rint(cells).astype(np.int64)
        bounds = np.iinfo(str(kind))
        if lowest < int(bounds.min) or highest > int(bounds.max):
            kind = pa.int64()
        return arrow_array(whole, missing).cast(kind)
    plain = arrow_array(cells, missing)
    return plain if plain.type == kind else plain.cast(kind, safe=False)


def _labels(
    axis: Axis, cells: NDArray[Any], missing: NDArray[np.bool_] | None, kind: pa.DataType
) -> pa.Array:
    target = kind.value_type if pa.types.is_dictionary(kind) else kind
    indices = arrow_array(cells.astype(np.int32), missing)
    labels = text_array(axis.labels or ())
    try:
        if pa.types.is_dictionary(kind):
            return _coded(indices, labels.cast(target), kind)
        if str(target).endswith("_view"):  # Arrow takes views only by way of plain text
            return labels.take(indices).cast(target)
        return labels.cast(target).take(indices)
    except pa.ArrowInvalid:
        raise TableError(
            f"the attribute '{axis.name}' has labels that its column cannot hold",
            must=f"labels that can be read as {target}",
            do="convert the column to text first",
        ) from None


def _dictionary(plain: pa.Array, kind: pa.DataType) -> pa.Array:
    """A masked column as a dictionary of the values it now has, in ascending order."""
    values = pc.unique(plain.drop_null())
    values = values.take(pc.sort_indices(values))
    return _coded(pc.index_in(plain, value_set=values), values, kind)


def _coded(indices: pa.Array, values: pa.Array, kind: pa.DataType) -> pa.Array:
    if len(values) <= np.iinfo(str(kind.index_type)).max:
        indices = indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, values, ordered=kind.ordered)
