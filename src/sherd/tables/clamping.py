"""Values outside what the schema declares, moved inside where its policy is to clamp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.coding import texts
from sherd.tables.schema import Outside

if TYPE_CHECKING:
    from sherd.tables.schema import Attribute, Schema


def within(table: pa.Table, schema: Schema) -> pa.Table:
    """The table with clamped values: a domain's nearest end, or the label for others."""
    for name in table.column_names:
        attribute = schema[name]
        if not attribute.role.protected or schema.outside_policy(name) is not Outside.CLAMP:
            continue
        column = table[name]
        if attribute.type.measured and attribute.domain is not None:
            low, high = (pa.scalar(_plain(bound)) for bound in attribute.domain)
            kind = column.type
            try:
                moved = pc.max_element_wise(column, low.cast(kind), skip_nulls=False)
                moved = pc.min_element_wise(moved, high.cast(kind), skip_nulls=False)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue  # a domain beyond the column's type bounds nothing
        elif attribute.type.labelled and attribute.other is not None:
            moved = _others(column, attribute, schema)
        else:
            continue
        table = table.set_column(table.column_names.index(name), name, moved)
    return table


def _plain(bound: object) -> object:
    from decimal import Decimal

    if isinstance(bound, Decimal):
        return int(bound) if bound == bound.to_integral_value() else float(bound)
    return bound


def _others(column: pa.ChunkedArray, attribute: Attribute, schema: Schema) -> pa.ChunkedArray:
    kind = column.type
    plain = column.cast(kind.value_type) if pa.types.is_dictionary(kind) else column
    coded = plain.combine_chunks().dictionary_encode()
    known = {*(attribute.labels or ()), *schema.missing_values, None}
    labels = texts(coded.dictionary)
    if all(label in known for label in labels):
        return column
    kept = [label if label in known else attribute.other for label in labels]
    moved = pa.DictionaryArray.from_arrays(
        coded.indices, pa.array(kept, pa.string()).cast(plain.type)
    )
    return pa.chunked_array([moved.cast(plain.type)])
