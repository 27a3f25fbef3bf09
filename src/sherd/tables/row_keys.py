"""Keys: what names each row of a table over time, for the owner's eyes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import SchemaError, TableError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.tables.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Keys:
    """One text for each row of a prepared table, and the attribute it comes from."""

    attribute: str
    values: tuple[str, ...]


def keys_of(table: pa.Table, schema: Schema, attribute: str, rows: Any = None) -> Keys:
    """The keys of a table as it came, of those ``rows`` that preparation kept (None: all)."""
    from sherd.tables.coding import texts

    if attribute not in schema.attributes:
        raise SchemaError(
            f"the key '{attribute}' is not an attribute of the schema",
            must="what names a tuple over time, such as a customer's number",
            do=did_you_mean(attribute, schema.attributes)
            or "add it to the schema with the role identifier, which is never released",
        )
    values = texts(table.column(attribute).combine_chunks())
    if any(value is None or value == "" for value in values):
        raise TableError(
            f"tuples have no key: the attribute '{attribute}' has empty cells",
            must="one key for each tuple",
        )
    if len(values) > len(set(values)):
        raise TableError(
            f"tuples share a key: '{attribute}' does not tell them apart",
            must="one key for each tuple",
            do="choose another attribute with --key, or remove the repeated tuples",
        )
    chosen = values if rows is None else [values[row] for row in rows]
    return Keys(attribute=attribute, values=tuple(str(value) for value in chosen))
