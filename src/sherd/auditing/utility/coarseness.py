"""How coarse a generalised, sliced or bucketised release is; from the release alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure
from sherd.verifying.label_meaning import Labelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.case.record_drawing import Drawable
    from sherd.tables.schema import Attribute


def generalisation(case: Case) -> list[Measure]:
    """NCP and discernibility, where the release has ranges, groups or buckets."""
    from sherd.auditing.case.record_drawing import GeneralisedRelease, SlicedRelease

    source = case.drawable
    if not isinstance(source, (GeneralisedRelease, SlicedRelease)):
        return []
    parts = {}
    for name, field in _fields(source).items():
        width = _widths(
            case.schema[name],
            Labelled.of(source.table[field], source.books.get(name), source.kinds[name]),
        )
        if width is not None:
            parts[name] = float(width.mean())
    rows = source.table.num_rows
    measures = []
    if parts:
        measures.append(
            Measure(
                spec=CATALOGUE["ncp"],
                value=float(np.mean(list(parts.values()))),
                basis=f"{rows:,} rows × {len(parts)} attributes, exact",
                parts=parts,
            )
        )
    sizes = groups(source, case)
    measures.append(
        Measure(
            spec=CATALOGUE["discernibility"],
            value=float(np.square(sizes).sum()) / rows**2,
            basis=f"{len(sizes):,} groups of {rows:,} rows, exact",
        )
    )
    return measures


def _fields(source: Any) -> dict[str, str]:
    if hasattr(source, "columns"):
        fields: dict[str, str] = {}
        for column in source.columns:
            for attribute, field in column.items():
                fields.setdefault(attribute, field)
        return fields
    return {name: name for name in source.table.column_names if name in source.kinds}


def _widths(attribute: Attribute, cells: Labelled) -> NDArray[np.float64] | None:
    """Each row's range or group as a share of the whole."""
    labels = attribute.labels
    whole = None
    if attribute.domain is not None:
        low, high = attribute.domain
        whole = float((high - low) / _one(high - low))  # type: ignore[operator]
    each = []
    for one in cells.meanings:
        if one.low is not None:
            if whole is None:
                return None
            width = one.high - one.low
            each.append(min(1.0, float(width / _one(width)) / whole))
        elif len(one.values) > 1 and labels is not None:
            each.append(min(1.0, (len(one.values) - 1) / max(1, len(labels) - 1)))
        else:
            each.append(0.0)
    return np.array(each)[cells.of_row]


def _one(width: Any) -> Any:
    """One unit of a difference: 1, or a second for differences of dates and times."""
    from datetime import timedelta

    return timedelta(seconds=1) if isinstance(width, timedelta) else 1


def groups(source: Drawable, case: Case) -> NDArray[np.float64]:
    """The sizes of the groups that an analyst can tell apart: buckets, or equal labels."""
    from sherd.auditing.case.record_drawing import SlicedRelease
    from sherd.tables.schema import Role

    if isinstance(source, SlicedRelease):
        buckets = source.table[source.bucket].to_numpy(zero_copy_only=False)
        return np.unique(buckets, return_counts=True)[1].astype(np.float64)
    table = source.table  # type: ignore[attr-defined]
    names = [a.name for a in case.schema if a.role is Role.QUASI_IDENTIFIER]
    names = [name for name in names if name in table.column_names] or table.column_names
    grouped = table.select(names).group_by(names).aggregate([([], "count_all")])
    sizes: NDArray[np.float64] = grouped.column("count_all").to_numpy().astype(np.float64)
    return sizes
