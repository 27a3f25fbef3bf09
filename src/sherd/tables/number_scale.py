"""One attribute's cells as numbers, so that original and release can be compared.

Measured attributes keep their own unit (days for dates, seconds for times), truth values
are 0 and 1, and labels become their rank in the declared order, or in the order of
frequency in the original. A cell without a value is NaN. Nothing is clamped or rounded:
the audit looks at what was really released.

Axes taken from the data, where the plan allows it by name.

The papers do this: bounds of [0, α·max], categories in order of frequency. Both are facts
about the data that no epsilon covers; the guarantee of such a plan says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import PlanError, TableError
from sherd.tables.attribute import Attribute, Bound, Type
from sherd.tables.axis import Axis
from sherd.tables.coding import in_units, texts
from sherd.tables.prepare import is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        cells = self._ranks(column) if self.labels is not None else _measured(column, self)
        if missing.any():
            cells[missing] = np.nan
        return cells

    def _ranks(self, column: pa.ChunkedArray) -> NDArray[np.float64]:
        rank = {label: float(i) for i, label in enumerate(self.labels or ())}
        ranks = np.empty(len(column), np.float64)
        start = 0
        for chunk in column.chunks:
            coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
            codes = [
                rank.get(t, np.nan) if t is not None else np.nan for t in texts(coded.dictionary)
            ]
            table = np.array([*codes, np.nan])
            places = coded.indices.cast(pa.int64()).fill_null(len(codes))
            ranks[start : start + len(chunk)] = table[places.to_numpy(zero_copy_only=False)]
            start += len(chunk)
        return ranks


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


def axis_of(
    attribute: Attribute,
    column: pa.ChunkedArray,
    *,
    domain_from_data: float | None = None,
    by_frequency: bool = False,
    missing_values: Sequence[str] = (),
) -> Axis:
    """The declared axis, or one taken from the column where that is allowed and needed."""
    if by_frequency and attribute.type is Type.CATEGORY:
        return Axis.of(_by_frequency(attribute, column, missing_values))
    if domain_from_data is not None and attribute.type.measured and attribute.domain is None:
        return Axis.of(replace(attribute, domain=_domain(attribute, column, domain_from_data)))
    return Axis.of(attribute)


def _by_frequency(
    attribute: Attribute, column: pa.ChunkedArray, missing_values: Sequence[str]
) -> Attribute:
    """Labels by falling frequency, then as declared, then by name (delvasto2025, 5.1)."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    counted = pc.value_counts(column.combine_chunks())
    declared = {label: i for i, label in enumerate(attribute.labels or ())}
    counts = dict.fromkeys(declared, 0)
    for label, count in zip(
        texts(counted.field("values")), counted.field("counts").to_pylist(), strict=True
    ):
        if label is None or (label in missing_values and label not in declared):
            continue
        if declared and label not in declared:
            continue  # prepare has dropped or refused it, or it is recoded to `other`
        counts[label] = counts.get(label, 0) + count
    if not counts:
        raise TableError(
            f"the attribute '{attribute.name}' has no values to take its labels from",
            do="declare `values` in the schema",
        )
    ordered = sorted(counts, key=lambda label: (-counts[label], declared.get(label, 0), label))
    return replace(attribute, values=tuple(ordered), taxonomy=None)


def _domain(attribute: Attribute, column: pa.ChunkedArray, factor: float) -> tuple[Bound, Bound]:
    """[0, factor·max], with factor·min below where there are negative values."""
    low, high = _extremes(attribute, column)
    if attribute.type in (Type.DATE, Type.DATETIME):
        try:
            margin = (high - low) * (factor - 1) or timedelta(days=1)
            return low - margin, high + margin
        except OverflowError:
            raise PlanError(
                f"the domain of the attribute '{attribute.name}' would leave the calendar",
                must="between the years 1 and 9999",
                got=f"a factor of {factor:g}",
                do="choose a smaller --domain-from-data, or declare `domain`",
            ) from None
    bottom = min(0.0, float(low) * factor)
    top = max(0.0, float(high) * factor)
    if top <= bottom:
        top = bottom + 1
    if attribute.type is Type.INTEGER:
        return Decimal(math.floor(bottom)), Decimal(math.ceil(top))
    return Decimal(repr(bottom)), Decimal(repr(top))


def _extremes(attribute: Attribute, column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the largest finite value, as what a domain is declared in."""
    ends: list[Any] = []
    for chunk in column.chunks:
        values, missing = in_units(chunk, attribute.name, attribute.type)
        usable = np.isfinite(values) if missing is None else np.isfinite(values) & ~missing
        if usable.any():
            ends += [values[usable].min().item(), values[usable].max().item()]
    if not ends:
        raise TableError(
            f"the attribute '{attribute.name}' has no values to take its domain from",
            do="declare `domain` in the schema",
        )
    low, high = min(ends), max(ends)
    if attribute.type is Type.DATE:
        day = date(1970, 1, 1)
        return day + timedelta(days=low), day + timedelta(days=high)
    if attribute.type is Type.DATETIME:
        start = datetime(1970, 1, 1, tzinfo=UTC)
        return start + timedelta(seconds=low), start + timedelta(seconds=high)
    return low, high
