"""What the report draws of each attribute: its distribution before and after."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.verdict.audit_result import Distribution
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.tables.schema import Attribute

BARS = 20
MOST_LABELS = 12


def distributions(case: Case) -> tuple[Distribution, ...]:
    """Every attribute's distribution, numbers in classes of equal width."""
    drawn = []
    for name in case.names:
        before, after = (
            column[~np.isnan(column)] for column in (case.original[name], case.released[name])
        )
        if not before.size or not after.size:
            continue
        labels = case.scales[name].labels
        attribute = case.schema[name]
        if labels is None:
            drawn.append(_numbers(attribute, before, after))
        elif attribute.type is Type.ORDINAL:
            drawn.append(_ordered(name, labels, before, after))
        else:
            drawn.append(_labels(name, labels, before, after))
    return tuple(drawn)


def _shares(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.bincount(values.astype(np.int64), minlength=count) / len(values)


def _ordered(
    name: str, labels: tuple[str, ...], before: NDArray[np.float64], after: NDArray[np.float64]
) -> Distribution:
    """Labels in the order of the schema; of many, neighbours share a class."""
    starts = list(range(0, len(labels), -(-len(labels) // BARS)))
    groups = [labels[a:b] for a, b in zip(starts, [*starts[1:], len(labels)], strict=True)]
    shares = [np.add.reduceat(_shares(v, len(labels)), starts) for v in (before, after)]
    classes = [g[0] if len(g) == 1 else f"{g[0]} … {g[-1]}" for g in groups]
    return _distribution(name, classes, (labels[0], labels[-1]), *shares)


def _labels(
    name: str, labels: tuple[str, ...], before: NDArray[np.float64], after: NDArray[np.float64]
) -> Distribution:
    """Labels in the order of the schema; the rarest of many are shown as one."""
    shares, classes = [_shares(values, len(labels)) for values in (before, after)], list(labels)
    if len(labels) > MOST_LABELS:
        top = np.sort(np.argsort(-(shares[0] + shares[1]), kind="stable")[: MOST_LABELS - 1])
        shares = [np.append(share[top], share.sum() - share[top].sum()) for share in shares]
        classes = [*(labels[i] for i in top), "other"]
    return _distribution(name, classes, (classes[0], classes[-1]), *shares)


def _distribution(
    name: str, classes: Sequence[str], ends: tuple[str, str], *shares: NDArray[np.float64]
) -> Distribution:
    before, after = (tuple(map(float, share)) for share in shares)
    return Distribution(name=name, classes=tuple(classes), ends=ends, before=before, after=after)


def _numbers(
    attribute: Attribute, before: NDArray[np.float64], after: NDArray[np.float64]
) -> Distribution:
    name, kind = attribute.name, attribute.type
    if kind is Type.BOOLEAN:
        shares = [np.array([np.mean(v < 0.5), np.mean(v >= 0.5)]) for v in (before, after)]
        return _distribution(name, ["false", "true"], ("false", "true"), *shares)
    low, high = _span(
        attribute, float(min(before.min(), after.min())), float(max(before.max(), after.max()))
    )
    few = kind is Type.INTEGER and high - low < BARS
    # Few whole numbers: a bar for each, as classes between them would stay empty.
    edges = np.arange(low - 0.5, high + 1) if few else np.linspace(low, high, BARS + 1)
    shares = [np.histogram(values, edges)[0] / len(values) for values in (before, after)]
    classes = [_text(edge + 0.5 * few, kind) for edge in edges[:-1]]
    return _distribution(name, classes, (_text(low, kind), _text(high, kind)), *shares)


def _span(attribute: Attribute, low: float, high: float) -> tuple[float, float]:
    """Where the picture begins and ends: at round numbers, or at the domain's ends before them.

    The values themselves would be numbers that nobody can read, and single people's.
    """
    if attribute.type in (Type.DATE, Type.DATETIME):
        return low, high if high > low else low + 1
    step = round_step((high - low) / 10 or 1.0)
    first, last = math.floor(low / step) * step, math.ceil(high / step) * step
    last = last if last > first else first + step
    if attribute.domain is not None:
        begin, end = (float(bound) for bound in attribute.domain)  # type: ignore[arg-type]
        first = max(first, begin) if begin <= low else first
        last = min(last, end) if end >= high else last
    return (first, last) if last > first else (first, first + step)


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not below.

    >>> round_step(7.3), round_step(0.012), round_step(300)
    (10.0, 0.02, 500.0)
    """
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= least * (1 - 1e-9))


def _text(edge: float, kind: Type) -> str:
    if kind is Type.DATE:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=edge)).date().isoformat()
    if kind is Type.DATETIME:
        stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=edge)
        return stamp.isoformat(sep=" ", timespec="minutes")
    return f"{edge:,.10g}" if edge == round(edge) else f"{edge:,.4g}"
