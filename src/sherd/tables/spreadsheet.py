"""Text that a spreadsheet would run as a formula, escaped by an apostrophe and back.

A text that already has apostrophes before such a sign gets one more: so every escaped text
leads back to one text only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sherd.tables.conform import is_text

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

_RISKY = r"^'*[=+\-@\t\r]"
_ESCAPED = r"^'('*[=+\-@\t\r])"


def escaped(text: pa.Array) -> pa.Array:
    """Texts with an apostrophe before those that a spreadsheet would run.

    >>> escaped(pa.array(["=1+0", "'=1+0", "a=1", None])).to_pylist()
    ["'=1+0", "''=1+0", 'a=1', None]
    """
    risky = pc.match_substring_regex(text, _RISKY)
    apostrophe = pa.scalar("'", text.type)
    joined = pc.binary_join_element_wise(apostrophe, text, pa.scalar("", text.type))
    return pc.if_else(risky, joined, text)


def unescaped(table: pa.Table) -> pa.Table:
    """The table that was written with its names and labels escaped.

    >>> unescaped(pa.table({"'=b": ["'=1+0", "'a"]})).to_pydict()
    {'=b': ['=1+0', "'a"]}
    """
    columns = [_unescaped(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=_plain(pa.array(table.column_names)).to_pylist())


def escaped_schema(schema: Schema) -> Schema:
    """The schema with its attributes called as the header of an escaped file calls them."""
    names = escaped(pa.array(list(schema.attributes), pa.string())).to_pylist()
    renamed = zip(names, schema.attributes.values(), strict=True)
    return replace(
        schema,
        attributes={name: replace(attribute, name=name) for name, attribute in renamed},
    )


def _plain(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.replace_substring_regex(text, _ESCAPED, r"\1")


def _unescaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _plain(chunk.dictionary))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, column.type)
    return _plain(column) if is_text(column.type) else column
