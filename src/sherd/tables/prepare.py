"""Preparation: a table checked against its schema and rid of what is not released.

The schema's policies for missing cells and for values outside the domain are carried out
here, before any method sees the table. Messages name attributes and counts, no values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import TableError, did_you_mean
from sherd.tables.axis import measure
from sherd.tables.canonical_form import canonical_cells, canonical_table
from sherd.tables.coding import (
    arrow_array,
    in_units,
    nulls,
    numpy_array,
    text_array,
    texts,
    unreadable,
)
from sherd.tables.schema import Attribute, Missing, Outside, Role, Schema, Type

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A table ready for a method, and which rows of the input it holds (None: all)."""

    table: pa.Table
    kept: NDArray[np.int64] | None


def prepare(table: pa.Table, schema: Schema) -> Prepared:
    """Check a table against its schema and carry out the schema's policies."""
    check_columns(table, schema)
    check_unit(table, schema)
    if table.num_rows == 0:
        raise TableError("the table has no rows", must="at least one row")
    table = canonical_table(table, schema)
    drop = np.zeros(table.num_rows, np.bool_)
    for name in table.column_names:
        attribute = schema[name]
        column = table.column(name)
        if not attribute.role.protected:
            continue
        column, gone = _missing(column, attribute, schema)
        drop |= gone
        drop |= _outside(column, attribute, schema)
        if column is not table.column(name):
            table = table.set_column(table.column_names.index(name), name, column)
    if not drop.any():
        return Prepared(table=table, kept=None)
    kept = np.flatnonzero(~drop)
    if not kept.size:
        raise TableError(
            "no row is left after dropping those with missing or outlying cells",
            do="choose another policy for `missing` or `outside` in the schema",
        )
    left = table.take(arrow_array(kept))
    for place, name in enumerate(left.column_names):
        if pa.types.is_dictionary(left.column(name).type):
            left = left.set_column(place, name, _without_unused(left.column(name)))
    return Prepared(table=left, kept=kept)


def _without_unused(column: pa.ChunkedArray) -> pa.Array:
    """A dictionary column that does not list values which only dropped rows had."""
    whole = column.combine_chunks()
    coded = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    gaps = nulls(coded.indices)
    indices = np.where(gaps, 0, numpy_array(coded.indices)).astype(np.int64)
    used = np.unique(indices[~gaps])
    places = arrow_array(np.searchsorted(used, indices), gaps).cast(coded.indices.type)
    values = coded.dictionary.take(arrow_array(used))
    return pa.DictionaryArray.from_arrays(places, values, ordered=coded.type.ordered)


def check_columns(table: pa.Table, schema: Schema) -> None:
    """Refuse a table whose columns are not the schema's attributes, each once."""
    names = table.column_names
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise TableError(f"the table has two columns called '{name}'", do="rename one")
        seen.add(name)
    for attribute in schema:
        if attribute.name not in seen:
            raise TableError(
                f"the table has no column '{attribute.name}'",
                must="every attribute of the schema",
                got=f"{len(names)} other columns",
                do=did_you_mean(attribute.name, names) or "correct the schema",
            )
    unknown = [name for name in names if name not in schema.attributes]
    if unknown:
        raise TableError(
            f"the schema does not say what to do with: {', '.join(unknown)}",
            must="an attribute for every column",
            do="add them to the schema; give what must never be released the role identifier",
        )


def check_unit(table: pa.Table, schema: Schema) -> None:
    """Refuse a table in which somebody has more rows than the schema allows."""
    if schema.unit is None:
        return
    counts = pc.value_counts(table.column(schema.unit).combine_chunks()).field("counts")
    most = pc.max(counts).as_py() or 0
    if most > schema.rows_per_unit:
        over = pc.sum(pc.greater(counts, schema.rows_per_unit)).as_py()
        raise TableError(
            f"{over} of the units in '{schema.unit}' have more rows than the schema allows",
            must=f"at most {schema.rows_per_unit}",
            got=f"up to {most}",
            do="reduce them first, or declare rows_per_unit, which the guarantee will then name",
        )


def is_missing(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> NDArray[np.bool_]:
    """Which cells have no value: null, NaN, or one of the schema's marks for it."""
    found = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    marks = [m for m in schema.missing_values if m not in (attribute.labels or ())]
    if marks and _is_text(column.type):
        marked = pc.is_in(_plain_text(column), value_set=text_array(marks))
        found = pc.or_(found, marked)
    return numpy_array(found.combine_chunks())


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _plain_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column if pa.types.is_string(column.type) else column.cast(pa.string())


def _missing(
    column: pa.ChunkedArray, attribute: Attribute, schema: Schema
) -> tuple[pa.ChunkedArray, NDArray[np.bool_]]:
    policy = schema.missing_policy(attribute.name)
    nothing = np.zeros(len(column), np.bool_)
    if policy is Missing.KEEP:
        return column, nothing
    gaps = is_missing(column, attribute, schema)
    if not gaps.any():
        return column, nothing
    if policy is Missing.DROP:
        return column, gaps
    if policy is Missing.REFUSE:
        raise TableError(
            f"the attribute '{attribute.name}' has {int(gaps.sum())} missing cells",
            must="none",
            do="set `missing: keep`, `drop`, or `recode` with a `recode:` value",
        )
    return _recoded(column, gaps, attribute), nothing


def _recoded(
    column: pa.ChunkedArray, gaps: NDArray[np.bool_], attribute: Attribute
) -> pa.ChunkedArray:
    plain = column
    if pa.types.is_dictionary(column.type):
        plain = column.cast(column.type.value_type)
    value: Any = attribute.recode
    if attribute.type is Type.BOOLEAN:
        value = str(value).lower() == "true"
    try:
        filler = pa.scalar(value).cast(plain.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(
            f"the attribute '{attribute.name}' cannot be recoded",
            must=f"a `recode:` value of the column's type {plain.type}",
            got=repr(attribute.recode),
        ) from None
    filled = pc.if_else(arrow_array(gaps), filler, plain.combine_chunks())
    return canonical_cells(pa.chunked_array([filled]), attribute)


def _outside(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> NDArray[np.bool_]:
    """Which rows to drop; raises where the policy is to refuse."""
    policy = schema.outside_policy(attribute.name)
    nothing = np.zeros(len(column), np.bool_)
    if attribute.type.labelled:
        if attribute.labels is None or (attribute.other is not None and policy is Outside.CLAMP):
            return nothing
        beyond = _unlisted(column, attribute, schema)
    elif attribute.domain is None or policy is Outside.CLAMP:
        return nothing
    else:
        beyond = _beyond(column, attribute)
    if not beyond.any():
        return nothing
    if policy is Outside.DROP:
        return beyond
    noun = (
        "labels its schema does not list"
        if attribute.type.labelled
        else "values outside its domain"
    )
    raise TableError(
        f"the attribute '{attribute.name}' has {int(beyond.sum())} {noun}",
        must="within what the schema declares",
        do="correct the schema, set `outside: drop`, or "
        + ("name a label as `other`" if attribute.type.labelled else "set `outside: clamp`"),
    )


def _unlisted(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> NDArray[np.bool_]:
    known = set(attribute.labels or ()) | set(schema.missing_values)
    unknown = np.zeros(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        try:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        except pa.ArrowNotImplementedError:
            raise unreadable(attribute.name, attribute.type, chunk.type) from None
        odd = [t is not None and t not in known for t in texts(coded.dictionary)]
        if any(odd):
            indices = np.where(nulls(coded.indices), len(odd), numpy_array(coded.indices))
            unknown[start : start + len(chunk)] = np.array([*odd, False])[indices]
        start += len(chunk)
    return unknown


def _beyond(column: pa.ChunkedArray, attribute: Attribute) -> NDArray[np.bool_]:
    assert attribute.domain is not None
    low, high = (float(measure(bound)) for bound in attribute.domain)
    found = np.zeros(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        values, missing = in_units(chunk, attribute.name, attribute.type)
        beyond = (values < low) | (values > high)
        found[start : start + len(chunk)] = beyond if missing is None else beyond & ~missing
        start += len(chunk)
    return found


def untouched(table: pa.Table, schema: Schema) -> list[str]:
    """The columns of a prepared table that are released as they are."""
    return [n for n in table.column_names if schema[n].role in (Role.INSENSITIVE, Role.WEIGHT)]
