"""One attribute's cells as numbers, so that original and release can be compared.

Measured attributes keep their own unit (days for dates, seconds for times), truth values
are 0 and 1, and labels become their rank in the declared order, or in the order of
frequency in the original. A cell without a value is NaN. Nothing is clamped or rounded:
the audit looks at what was really released.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sherd.errors import TableError
from sherd.tables.coding import texts
from sherd.tables.observed import axis_of
from sherd.tables.prepare import is_missing
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute, Schema

_TICKS = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How an attribute's cells become numbers.

    ``labels`` lists the labels by rank, None where cells are numbers already.
    """

    attribute: Attribute
    labels: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self.attribute.name

    @property
    def nominal(self) -> bool:
        """Whether values are labels: only equal or not, apart from the order agreed on."""
        return self.labels is not None

    def numbers(self, column: pa.ChunkedArray, schema: Schema) -> NDArray[np.float64]:
        """The column as numbers; missing cells, and labels nobody listed, are NaN."""
        missing = is_missing(column, self.attribute, schema)
        found = self._ranks(column) if self.labels is not None else _measured(column, self)
        if missing.any():
            found[missing] = np.nan
        return found

    def _ranks(self, column: pa.ChunkedArray) -> NDArray[np.float64]:
        rank = {label: float(i) for i, label in enumerate(self.labels or ())}
        found = np.empty(len(column), np.float64)
        start = 0
        for chunk in column.chunks:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            codes = [
                rank.get(t, np.nan) if t is not None else np.nan for t in texts(coded.dictionary)
            ]
            table = np.array([*codes, np.nan])
            places = coded.indices.cast(pa.int64()).fill_null(len(codes))
            found[start : start + len(chunk)] = table[places.to_numpy(zero_copy_only=False)]
            start += len(chunk)
        return found


def scale_of(
    attribute: Attribute,
    original: pa.ChunkedArray,
    schema: Schema,
    *,
    by_frequency: bool = False,
) -> Scale:
    """The scale of an attribute: labels as declared, or by their frequency in the original.

    Labels that a schema does not list take the order of frequency too.
    """
    if not attribute.type.labelled and attribute.type is not Type.TEXT:
        return Scale(attribute=attribute)
    if attribute.type is Type.TEXT:
        from dataclasses import replace

        attribute = replace(attribute, type=Type.CATEGORY)
    by_frequency = by_frequency or attribute.labels is None
    axis = axis_of(
        attribute, original, by_frequency=by_frequency, missing_values=schema.missing_values
    )
    return Scale(attribute=attribute, labels=axis.labels)


def _measured(column: pa.ChunkedArray, scale: Scale) -> NDArray[np.float64]:
    try:
        plain = _in_unit(column, scale.attribute.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise TableError(
            f"the attribute '{scale.name}' cannot be read as {scale.attribute.type}",
            must=f"values of type {scale.attribute.type}",
            got=f"a column of type {column.type}",
            do="check that the release belongs to this table and schema",
        ) from None
    # A copy of our own: Arrow's buffers may not be written to.
    return np.array(plain.to_numpy(), dtype=np.float64)


def _in_unit(column: pa.ChunkedArray, kind: Type) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind is Type.BOOLEAN:
        return column.cast(pa.bool_()).cast(pa.int8()).cast(pa.float64())
    if kind is Type.DATE:
        return column.cast(pa.date32()).cast(pa.int32()).cast(pa.float64())
    if kind is Type.DATETIME:
        if not pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us"))
        import pyarrow.compute as pc

        ticks = _TICKS[column.type.unit]
        return pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), ticks)
    return column.cast(pa.float64(), safe=False)
