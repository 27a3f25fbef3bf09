"""Does a table fit its schema: the same columns, each of a type its attribute can have.

CSV text is parsed into the schema's types while it is read; every other source brings
types of its own, which are kept where they can serve (a 32-bit integer, a decimal) and
converted where they cannot. A message names a column and a row, never a cell.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError, did_you_mean
from sherd.tables.attribute import Attribute, Role, Type
from sherd.tables.canonical_form import (
    NO_VALUES,
    canonical_cells,
    cell_type,
    is_text,
    value_type,
)
from sherd.tables.local_forms import plain_forms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.tables.schema import Schema

_KINDS = {
    Type.INTEGER: "whole numbers",
    Type.NUMBER: "numbers",
    Type.DATE: "dates such as 2020-01-31",
    Type.DATETIME: "times such as 2020-01-31 12:00:00",
    Type.BOOLEAN: "true or false",
}


def kind_in_words(attribute: Attribute) -> str:
    """What an attribute's cells must be, in words.

    >>> kind_in_words(Attribute(name="age", type=Type.INTEGER))
    'whole numbers'
    """
    if attribute.role is Role.IDENTIFIER:
        return "text"
    return _KINDS.get(attribute.type, "text")


def check_names(names: Sequence[str], *, shown: str, speak: bool = True) -> None:
    """Refuse columns without a name and names given twice.

    ``speak=False`` leaves the names out of the message: a file without a header has cells
    where names should be.
    """
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise TableError(
                f"column {place} has no name",
                must="a name for every column",
                got=shown,
                do="name it, or leave it out" + _unnamed_hint(place, len(names)),
            )
    for name, count in Counter(names).items():
        if count > 1:
            places = [str(place) for place, other in enumerate(names, 1) if other == name]
            who = f"'{name}' " if speak else ""
            raise TableError(
                f"the column name {who}is used {count} times",
                must="different for every column",
                got=f"{shown}, columns {', '.join(places)}",
                do="rename one" if speak else "rename one, or add a header row if there is none",
            )


def _unnamed_hint(place: int, columns: int) -> str:
    """Why a column often has no name, where its place tells."""
    if place == 1:
        return " (an unnamed first column is often a row index)"
    if place == columns:
        return " (an unnamed last column often comes from a delimiter at the end of every row)"
    return ""


def check_columns(names: Sequence[str], schema: Schema, *, shown: str) -> None:
    """Refuse a table whose columns are not those of the schema, each with a name of its own."""
    check_names(names, shown=shown)
    lacking = [name for name in schema.attributes if name not in names]
    extra = [name for name in names if name not in schema.attributes]
    if len(extra) == len(names):
        # Nothing fits: perhaps the first row is no header, so no name may be quoted.
        raise TableError(
            "no column of the table is in the schema",
            must="a table whose header names the schema's attributes",
            got=f"{shown} with {len(names)} column(s)",
            do="check that the file has a header row and that the schema is the right one",
        )
    if lacking:
        raise TableError(
            f"the table lacks the column(s) {_listed(lacking)} of the schema",
            got=shown,
            do=did_you_mean(lacking[0], extra) or "remove them from the schema, or add them",
        )
    if extra:
        raise TableError(
            f"the schema lacks the column(s) {_listed(extra)} of the table",
            got=shown,
            do="add them to the schema, or mark them as identifier to leave them out",
        )


def _listed(names: Sequence[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"'{name}'" for name in names[:limit]) + more


def conform(
    table: pa.Table, schema: Schema, *, shown: str = "the table", lenient: bool = False
) -> pa.Table:
    """The table, its columns in their order, in types that serve the schema.

    With ``lenient``, columns of text stay text: preparing them decides what they hold.
    """
    check_columns(table.column_names, schema, shown=shown)
    return pa.table(
        {
            name: table[name]
            if lenient and is_text(table[name].type)
            else conform_column(table[name], schema[name], schema)
            for name in table.column_names
        }
    )


def conform_column(
    column: pa.ChunkedArray, attribute: Attribute, schema: Schema, *, rows: bool = True
) -> pa.ChunkedArray:
    """A column in a type that serves its attribute.

    ``rows`` says that cells lie as in the table, so that a refusal can name the row.
    """
    if (
        attribute.role is Role.IDENTIFIER
        and attribute.name != schema.unit
        and _strange(column.type)
    ):
        return pa.chunked_array([pa.nulls(len(column), pa.string())])  # it is never released
    column = plain(column, attribute.name)
    marks = schema.missing_values
    if attribute.role is not Role.IDENTIFIER and not _serves(pa.string(), attribute):
        marks = ("", *NO_VALUES, *marks)
    if is_text(column.type) and marks:
        column = _blank(column, pa.array(marks, type=value_type(column.type)))
    if _serves(column.type, attribute):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    target = cell_type(attribute)
    if attribute.role is not Role.IDENTIFIER and _by_rows(column.type, attribute):
        return canonical_cells(column, attribute, schema.missing_values).cast(target)
    if is_text(column.type):
        column = plain_forms(column, attribute.type)
    try:
        return _convert(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = _first_bad(column, target) if rows else None
        where = "" if row is None else f" in row {row}"
        raise TableError(
            f"the column '{attribute.name}' does not fit its attribute{where}",
            must=kind_in_words(attribute),
            got=f"the type {column.type}",
            do="correct the cell or the attribute's type",
        ) from None


def plain(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """The column without extension types; nested and binary columns are refused."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        column = column.cast(kind.storage_type)
        kind = column.type
    if _strange(kind):
        raise TableError(
            f"the column '{name}' holds values that Sherd cannot handle",
            must="numbers, dates, true or false, or text",
            got=f"the type {kind}",
            do="leave it out, or convert it to text first",
        )
    return column


def _strange(kind: pa.DataType) -> bool:
    """Whether values of a type are neither numbers nor times, truths or texts."""
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(pa.types.is_nested(inner) or _is_binary(inner))


def _is_binary(kind: pa.DataType) -> bool:
    test = pa.types
    return bool(
        test.is_binary(kind)
        or test.is_large_binary(kind)
        or test.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


def _blank(column: pa.ChunkedArray, marks: pa.Array) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        chunks = []
        for chunk in column.chunks:
            known = pc.is_in(chunk.dictionary, value_set=marks)
            gone = pc.take(known, chunk.indices)
            indices = pc.if_else(gone, pa.scalar(None, chunk.indices.type), chunk.indices)
            ordered = column.type.ordered
            chunks.append(
                pa.DictionaryArray.from_arrays(indices, chunk.dictionary, ordered=ordered)
            )
        return pa.chunked_array(chunks, type=column.type)
    none = pa.scalar(None, column.type)
    return pc.if_else(pc.is_in(column, value_set=marks), none, column)


def _serves(kind: pa.DataType, attribute: Attribute) -> bool:
    test = pa.types
    if attribute.role is Role.IDENTIFIER:
        return is_text(kind)
    match attribute.type:
        case Type.INTEGER:
            return bool(test.is_integer(kind) or (test.is_decimal(kind) and kind.scale == 0))
        case Type.NUMBER:
            return bool(test.is_floating(kind) or test.is_integer(kind) or test.is_decimal(kind))
        case Type.DATE:
            return bool(test.is_date(kind))
        case Type.DATETIME:
            return bool(test.is_timestamp(kind))
        case Type.BOOLEAN:
            return bool(test.is_boolean(kind))
    return is_text(kind)


def _by_rows(kind: pa.DataType, attribute: Attribute) -> bool:
    """Whether one row can have decided on a type: fractions for whole numbers, numbers for labels.

    What other rows become must not depend on it, nor whether the table is taken at all.
    """
    if attribute.type.labelled:
        return True
    if attribute.type is Type.BOOLEAN:  # a gap among noughts and ones makes them fractions
        return bool(pa.types.is_floating(kind))
    fractions = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return attribute.type is Type.INTEGER and bool(fractions)


def _convert(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """The column in a type; raises Arrow's errors, also where a day would lose its hours."""
    converted = column.cast(target)
    cut = pa.types.is_timestamp(column.type) and pa.types.is_date(target)
    if cut and not converted.cast(column.type).equals(column):
        raise pa.ArrowInvalid("a time would be cut to its day")
    return converted


def _first_bad(column: pa.ChunkedArray, target: pa.DataType) -> int | None:
    """The number of the first row (from 1) that cannot be converted, by bisection."""
    low, high = 0, len(column)

    def fails(start: int, stop: int) -> bool:
        try:
            _convert(column.slice(start, stop - start), target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return True
        return False

    if not high or fails(0, 0):
        return None  # the types do not go together, whatever the cells
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(low, middle) else (middle, high)
    return low + 1
