"""What the report draws of each attribute: its distribution before and after."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from sherd.audit.result import Distribution
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.audit.case import Case

BARS = 20
MOST_LABELS = 12


def distributions(case: Case) -> tuple[Distribution, ...]:
    """Every attribute's distribution, numbers in classes of equal width."""
    found = []
    for name in case.names:
        before, after = (
            column[~np.isnan(column)] for column in (case.original[name], case.released[name])
        )
        if not before.size or not after.size:
            continue
        labels = case.scales[name].labels
        if labels is None:
            found.append(_numbers(name, case.schema[name].type, before, after))
        else:
            found.append(_labels(name, labels, before, after))
    return tuple(found)


def _labels(
    name: str, labels: tuple[str, ...], before: NDArray[np.float64], after: NDArray[np.float64]
) -> Distribution:
    counts = [
        np.bincount(values.astype(np.int64), minlength=len(labels)) / len(values)
        for values in (before, after)
    ]
    shown = range(len(labels))
    rest: list[float] = []
    names = list(labels)
    if len(labels) > MOST_LABELS:
        top = np.argsort(-(counts[0] + counts[1]), kind="stable")[: MOST_LABELS - 1]
        shown = sorted(int(i) for i in top)  # type: ignore[assignment]
        rest = [float(c.sum() - c[list(shown)].sum()) for c in counts]
        names = [labels[i] for i in shown]
    return Distribution(
        name=name,
        classes=(*names, *(["other"] if rest else [])),
        before=(*(float(counts[0][i]) for i in shown), *rest[:1]),
        after=(*(float(counts[1][i]) for i in shown), *rest[1:]),
    )


def _numbers(
    name: str, kind: Type, before: NDArray[np.float64], after: NDArray[np.float64]
) -> Distribution:
    low = float(min(before.min(), after.min()))
    high = float(max(before.max(), after.max()))
    if kind is Type.BOOLEAN:
        shares = [(float(np.mean(v < 0.5)), float(np.mean(v >= 0.5))) for v in (before, after)]
        return Distribution(name=name, classes=("false", "true"), before=shares[0], after=shares[1])
    edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
    shares2 = [np.histogram(values, edges)[0] / len(values) for values in (before, after)]
    return Distribution(
        name=name,
        classes=tuple(_text(edge, kind) for edge in edges[:-1]),
        before=tuple(float(s) for s in shares2[0]),
        after=tuple(float(s) for s in shares2[1]),
    )


def _text(edge: float, kind: Type) -> str:
    if kind is Type.DATE:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=edge)).date().isoformat()
    if kind is Type.DATETIME:
        stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=edge)
        return stamp.isoformat(sep=" ", timespec="minutes")
    return f"{edge:.4g}"
