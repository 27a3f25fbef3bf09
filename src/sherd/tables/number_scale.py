"""Scales that may come from the data: cells as numbers for comparing, axes where a plan allows it.

To compare an original with its release, an attribute's cells become numbers (``Scale``). Measured
attributes keep their own unit (days for dates, seconds for times), truth values are 0 and 1, and
labels become their rank in the declared order, or in the order of frequency in the original. A
cell without a value is NaN. Nothing is clamped or rounded: the audit looks at what was really
released.

A plan may also ask by name for axes that are taken from the data (``axis_of``), as the papers do:
bounds of [0, α·max], categories in order of frequency. Both are facts about the data that no
epsilon covers; the guarantee of such a plan says so.
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
from sherd.tables.prepare import by_text, is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema


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
        if self.labels is None:
            chunks = [in_units(c, self.name, self.attribute.type)[0] for c in column.chunks]
            cells = np.concatenate([np.empty(0), *chunks])
        else:
            rank = {label: float(place) for place, label in enumerate(self.labels)}
            cells = by_text(column, lambda text: rank.get(text or "", np.nan), np.float64)
        cells[missing] = np.nan
        return cells


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
        attribute = replace(attribute, type=Type.CATEGORY)
    by_frequency = by_frequency or attribute.labels is None
    axis = axis_of(
        attribute, original, by_frequency=by_frequency, missing_values=schema.missing_values
    )
    return Scale(attribute=attribute, labels=axis.labels)


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
