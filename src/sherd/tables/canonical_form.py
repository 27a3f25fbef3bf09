"""One form for a table's cells, whatever it was read from and whatever made it.

A file says more than its cells: a dictionary lists labels in the order in which the original
had them, including those of rows that were left out; a type tells that one cell was a
fraction, or was missing; memory under a missing cell may still hold what stood there. Here
all of that is derived from the schema on the way in, and in ``released_form`` from the released
cells on the way out, so no method and no format has to think of it.

>>> age = Attribute(name="age", type=Type.INTEGER)
>>> canonical_cells(pa.chunked_array([[39.0, float("nan")]]), age).type
DataType(int64)
"""

from __future__ import annotations

import contextlib
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError
from sherd.tables.attribute import Attribute, Role, Type, value_of
from sherd.tables.axis import measure
from sherd.tables.coding import arrow_array, nulls, numpy_array, text_array, texts, unreadable
from sherd.tables.local_forms import plain_forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

LABELS = pa.dictionary(pa.int32(), pa.string())
"""How labels are held inside Sherd: they are told apart by small numbers."""

NO_VALUES = (
    "NaN", "nan", "NAN", "NaT", "null", "NULL", "Null", "inf", "-inf", "+inf", "Inf", "-Inf",
    "Infinity", "-Infinity", "INF", "-INF",
)  # fmt: skip
"""Texts that programs write where a number, a day, a time or a truth has no value."""

_DECIMALS = 38
"""The most digits after the point of a decimal that is rounded exactly, as a decimal."""
_PLAIN = (str, int, float, bool, date, Decimal, np.bool_, np.integer, np.floating)
_MOST = 2**63 - 1
_FRACTION = r"^\s*[+-]?\d*\.\d*[1-9]\d*\s*$"
_ZONED = r"[T ]\d\d.*(Z|[+-]\d\d(:?\d\d)?)$"  # a time of day, then a zone
_UNREADABLE = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


def cell_type(attribute: Attribute) -> pa.DataType:
    """The type of an attribute's released cells, by the schema alone.

    Times are in UTC and carry no zone: which zone a column is in can depend on its rows.
    """
    if attribute.role is Role.IDENTIFIER:
        return pa.string()
    match attribute.type:
        case Type.INTEGER:
            return pa.int64()
        case Type.NUMBER:
            return pa.float64()
        case Type.DATE:
            return pa.date32()
        case Type.DATETIME:
            return pa.timestamp("us")
        case Type.BOOLEAN:
            return pa.bool_()
    return pa.string()


def canonical_table(table: pa.Table, schema: Schema, *, lenient: bool = False) -> pa.Table:
    """The released attributes in the schema's order, every column in its canonical form.

    With ``lenient``, a text that is no value of its attribute is missing; else it is refused.
    """
    read = lenient_cells if lenient else canonical_cells
    return pa.table(
        {
            name: read(table.column(name), schema[name], schema.missing_values)
            for name in schema.released
        }
    )


def lenient_cells(
    column: pa.ChunkedArray, attribute: Attribute, missing_values: Sequence[str] = ()
) -> pa.ChunkedArray:
    """The column as ``canonical_cells`` gives it, texts that are no values left out.

    >>> age = Attribute(name="age", type=Type.INTEGER)
    >>> lenient_cells(pa.chunked_array([["39", "unknown"]]), age).to_pylist()
    [39, None]
    """
    try:
        return canonical_cells(column, attribute, missing_values)
    except TableError:
        if not is_text(column.type) and not pa.types.is_dictionary(column.type):
            raise  # the whole column is of another kind, whatever its rows hold
    coded = column.cast(pa.string()).dictionary_encode().combine_chunks()
    whole = coded if isinstance(coded, pa.Array) else pa.concat_arrays(coded.chunks)
    readable = []
    for text in whole.dictionary.to_pylist():
        try:
            canonical_cells(pa.chunked_array([text_array([text])]), attribute)
        except TableError:
            readable.append("")
        else:
            readable.append(text)
    kept = text_array(readable).take(whole.indices)
    return canonical_cells(pa.chunked_array([kept]), attribute, missing_values)


def canonical_cells(
    column: pa.ChunkedArray, attribute: Attribute, missing_values: Sequence[str] = ()
) -> pa.ChunkedArray:
    """A column in the type that its attribute declares; whatever is no value is null.

    No value is: null, not-a-number, an infinity, an empty text, and each of the schema's words
    for it; of what is measured, also the texts that programs write for these. Labels become a
    dictionary in the schema's order, then the alphabet's.
    """
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.cast(column.type.storage_type)
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    marks = frozenset(("", *missing_values))
    try:
        if attribute.type.labelled or attribute.type is Type.TEXT:
            return _labels(column, attribute, marks)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if is_text(column.type):
            column = _without_marks(column, marks | {*NO_VALUES})
            column = plain_forms(column, attribute.type)
        return _without_values(_measured(column, attribute), attribute, missing_values)
    except _UNREADABLE:
        # Arrow's own message quotes the cell it stumbled over.
        raise unreadable(attribute.name, attribute.type, column.type) from None


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, looking through a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, plain or behind a dictionary."""
    inner, test = value_type(kind), pa.types
    return bool(test.is_string(inner) or test.is_large_string(inner) or test.is_string_view(inner))


def _without_marks(column: pa.ChunkedArray, marks: frozenset[str]) -> pa.ChunkedArray:
    """Texts whose words for "no value" are null."""
    plain = column.cast(pa.large_string())
    gone = pc.is_in(plain, value_set=text_array(sorted(marks)).cast(pa.large_string()))
    if not pc.any(gone).as_py():
        return plain
    return pc.if_else(gone, pa.scalar(None, pa.large_string()), plain)


def _without_values(
    column: pa.ChunkedArray, attribute: Attribute, missing_values: Sequence[str]
) -> pa.ChunkedArray:
    """The column without numbers, days and times that the schema lists as "no value"."""
    if not attribute.type.measured:
        return column
    listed: list[int | float] = []
    for word in missing_values:
        with contextlib.suppress(ValueError, OverflowError):
            amount = measure(value_of(word, attribute.type))
            ticks = amount * (10**6 if attribute.type is Type.DATETIME else 1)
            listed.append(float(amount) if attribute.type is Type.NUMBER else int(ticks))
    if not listed:
        return column
    kind = column.type
    stored = np.int32 if attribute.type is Type.DATE else np.int64
    cells = np.array(listed, np.float64 if attribute.type is Type.NUMBER else stored)
    gone = pc.is_in(column, value_set=arrow_array(cells).view(kind))
    return pc.if_else(gone, pa.scalar(None, kind), column)


def _measured(column: pa.ChunkedArray, attribute: Attribute) -> pa.ChunkedArray:
    kind, target = column.type, cell_type(attribute)
    if attribute.type is Type.NUMBER:
        return finite(_number(column).cast(pa.float64(), safe=False))
    if attribute.type is Type.INTEGER:
        numbers = _number(column)
        if is_text(kind) and _has_fractions(column, numbers):
            raise pa.ArrowInvalid("not a whole number")
        return whole(numbers)
    if attribute.type is Type.BOOLEAN:
        return (finite(column) if pa.types.is_floating(kind) else column).cast(target)
    if kind == target:
        return column
    if attribute.type is Type.DATE and pa.types.is_timestamp(kind):
        return instants(column).cast(target, safe=False)
    return instants(column) if attribute.type is Type.DATETIME else column.cast(target)


def instants(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times in UTC, without their zone."""
    kind = column.type
    if is_text(kind):
        try:
            return column.cast(pa.timestamp("us"))
        except pa.ArrowInvalid:  # some with a zone: each cell is read by itself
            has_zone, gap = pc.match_substring_regex(column, _ZONED), pa.scalar(None, kind)
            zoned_cells = pc.if_else(has_zone, column, gap).cast(pa.timestamp("us", "UTC"))
            others = pc.if_else(has_zone, gap, column).cast(pa.timestamp("us"))
            return pc.coalesce(instants(zoned_cells), others)
    elif not pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us"))
    ticks = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    return ticks.cast(pa.timestamp("us"))


def _number(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column that holds numbers, or texts that are."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        raise pa.ArrowInvalid("not a number")
    if not is_text(kind):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column.cast(pa.float64())


def _has_fractions(words: pa.ChunkedArray, numbers: pa.ChunkedArray) -> bool:
    """Whether a text is no whole number, also where no float holds its fraction."""
    if pa.types.is_integer(numbers.type):
        return False
    apart = pc.not_equal(pc.floor(finite(numbers)), numbers)
    written = pc.match_substring_regex(words, _FRACTION)
    return bool(pc.any(pc.or_kleene(apart, written)).as_py())


def finite(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers; what is not finite is missing."""
    finite = pc.is_finite(column)
    if pc.all(finite, min_count=0).as_py():
        return column
    return pc.if_else(pc.fill_null(finite, False), column, pa.scalar(None, column.type))


def whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers of 64 bits: fractions are rounded, numbers beyond the range take its ends."""
    kind = column.type
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return column.cast(pa.int64())
    if pa.types.is_uint64(kind):
        most = pa.scalar(_MOST, kind)
        return pc.min_element_wise(column, most, skip_nulls=False).cast(pa.int64())
    if pa.types.is_decimal(kind) and 0 <= kind.scale <= _DECIMALS:
        # Exact, cell by cell: what one becomes must not hang on how long others are.
        wide = pa.decimal256(76, kind.scale)
        rounded = pc.round(column.cast(wide), ndigits=0, round_mode="half_to_even")
        ends = [pa.scalar(Decimal(end), wide) for end in (-_MOST, _MOST)]
        rounded = pc.if_else(pc.less(rounded, ends[0]), ends[0], rounded)
        return pc.if_else(pc.greater(rounded, ends[1]), ends[1], rounded).cast(pa.int64())
    numbers = finite(column.cast(pa.float64(), safe=False))
    chunks = []
    for chunk in numbers.chunks:
        gaps = nulls(chunk)
        cells = np.rint(np.where(gaps, 0.0, numpy_array(chunk)))
        low, high = cells <= -(2.0**63), cells >= 2.0**63
        whole = np.where(low | high, 0.0, cells).astype(np.int64)
        whole[low], whole[high] = -_MOST, _MOST
        chunks.append(arrow_array(whole, gaps if gaps.any() else None))
    return pa.chunked_array(chunks, pa.int64())


def _labels(
    column: pa.ChunkedArray, attribute: Attribute, marks: frozenset[str]
) -> pa.ChunkedArray:
    """Labels as a dictionary of those that occur, in an order that no row decides."""
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_timestamp(column.type):
            column = instants(column)
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return pa.chunked_array([], LABELS)
    known = label_texts(column.chunk(0).dictionary)
    kept = [None if text in marks else text for text in known]
    used = np.zeros(len(kept) + 1, np.bool_)
    codes = []
    for chunk in column.chunks:
        gaps = nulls(chunk.indices)
        places = np.where(gaps, len(kept), numpy_array(chunk.indices)).astype(np.int64)
        used[places] = True
        codes.append(places)
    present = {text for text, there in zip(kept, used, strict=False) if there and text is not None}
    declared = [label for label in attribute.labels or () if label in present]
    ordered = [*declared, *sorted(present - set(declared))]
    place = {text: number for number, text in enumerate(ordered)}
    new = np.array([*(place.get(text or "", -1) for text in kept), -1], np.int32)
    labels = text_array(ordered)
    return pa.chunked_array([_coded(new[places], labels) for places in codes], LABELS)


def _coded(codes: NDArray[np.int32], labels: pa.Array) -> pa.Array:
    gaps = codes < 0
    indices = arrow_array(np.where(gaps, 0, codes).astype(np.int32), gaps if gaps.any() else None)
    return pa.DictionaryArray.from_arrays(indices, labels)


def label_texts(values: pa.Array) -> list[str | None]:
    """Values as labels: the same text whatever type a source gave them.

    >>> label_texts(pa.array([Decimal("1.50"), Decimal("2.00")])), label_texts(pa.array([2.0]))
    (['1.5', '2'], ['2'])
    """
    kind = values.type
    if pa.types.is_decimal(kind):
        return [None if v is None else _shortest(v) for v in values.to_pylist()]
    if pa.types.is_floating(kind):
        values = finite(pa.chunked_array([values.cast(pa.float64())])).combine_chunks()
    labels = texts(values)
    if pa.types.is_timestamp(kind):
        return [None if text is None else text.removesuffix(".000000") for text in labels]
    return labels


def mixed_texts(values: Iterable[object]) -> pa.Array:
    """Values of several kinds as texts, for a reader that leaves the judgement to the schema.

    What is neither a text nor a number, a truth or a day is no value: an empty text.

    >>> mixed_texts([1, 2.0, "old", None, True, b"?"]).to_pylist()
    ['1', '2', 'old', '', 'true', '']
    """
    return text_array([_text_of(value) or "" for value in values])


def are_plain(values: Iterable[object]) -> bool:
    """Whether all values are texts, numbers, truths or days, or none."""
    return all(value is None or isinstance(value, _PLAIN) for value in values)


def _text_of(value: object) -> str | None:
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating):
        return label_texts(pa.array([float(value)]))[0]
    if isinstance(value, Decimal):
        return _shortest(value) if value.is_finite() else None
    if isinstance(value, date):
        return None if value != value else value.isoformat()
    return str(value) if isinstance(value, str | int | np.integer) else None


def _shortest(value: Decimal) -> str:
    return format(value.normalize(), "f") if value else "0"
