"""Means, variances, quantiles and associations, before and after."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.case.case import height, take
from sherd.auditing.case.classes import Classes, histogram
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.utility.features import pick
from sherd.auditing.verdict.measure import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns

CELLS = 1_000_000_000
"""Pairs of attributes times records up to which associations use every record."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def moments(case: Case) -> list[Measure]:
    """Shifts of means, variances and quantiles, averaged over the attributes."""
    means, variances, quantiles = {}, {}, {}
    for name in case.names:
        before, after = _present(case.original[name]), _present(case.released[name])
        if not (before.size and after.size):
            continue
        spread = float(before.std()) or 1.0
        means[name] = abs(float(after.mean() - before.mean())) / spread
        if before.var() > 0:
            ratio = float(after.var() / before.var())
            variances[name] = abs(float(np.log2(max(ratio, 1e-9))))
        shift = np.quantile(after, QUANTILES) - np.quantile(before, QUANTILES)
        quantiles[name] = float(np.abs(shift).mean()) / spread
    basis = f"{len(means)} attributes, {case.n_released:,} records, exact; labels by their rank"
    found = []
    for code, parts in (("means", means), ("variances", variances), ("quantiles", quantiles)):
        if parts:
            value = float(np.mean(list(parts.values())))
            found.append(Measure(spec=CATALOGUE[code], value=value, basis=basis, parts=parts))
    return found


def _present(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def association_matrix(case: Case, columns: Columns, classes: Classes) -> NDArray[np.float64]:
    """Pearson's correlation of two numbers, Cramér's V of anything else, for all pairs.

    Both are over the records that have both values: cells that are missing together (a part
    that was withdrawn) are no dependence of the values.
    """
    names = case.names
    coded = classes.code(columns)
    found = np.eye(len(names))
    for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
        if case.scales[a].labels is None and case.scales[b].labels is None:
            value = _pearson(columns[a], columns[b])
        else:
            joint = histogram(coded, classes.sizes, (a, b))
            value = cramers_v(joint.reshape(classes.sizes[a], classes.sizes[b])[1:, 1:])
        found[i, j] = found[j, i] = value
    return found


def _pearson(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    both = ~(np.isnan(a) | np.isnan(b))
    if not both.all():
        a, b = a[both], b[both]
    if a.size < 2:
        return 0.0
    a, b = a - a.mean(), b - b.mean()
    norm = float(np.sqrt(_product(a, a) * _product(b, b)))
    return _product(a, b) / norm if norm > 0 else 0.0


def _product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Σ ab, not by BLAS: its threads wait for each other longer than the product takes."""
    return float(np.einsum("i,i", a, b))


def cramers_v(joint: NDArray[np.float64]) -> float:
    """Cramér's V of a joint distribution, given as shares of any whole.

    >>> cramers_v(np.array([[0.5, 0.0], [0.0, 0.5]])), cramers_v(np.array([[0.2, 0.0], [0.0, 0.2]]))
    (1.0, 1.0)
    """
    joint = joint[joint.sum(1) > 0][:, joint.sum(0) > 0]
    if min(joint.shape) < 2:
        return 0.0
    joint = joint / joint.sum()
    alone = np.outer(joint.sum(1), joint.sum(0))
    squared = float((np.square(joint - alone) / alone).sum())
    return float(np.sqrt(squared / (min(joint.shape) - 1)))


def associations(case: Case) -> tuple[list[Measure], NDArray[np.float64], NDArray[np.float64]]:
    """The mean change of associations, and both matrices for the report."""
    classes = Classes(case)
    pairs = list(itertools.combinations(range(len(case.names)), 2))
    most = max(2_000, CELLS // max(1, len(pairs)))
    rng = case.rng("associations")
    before, after = (
        association_matrix(case, take(columns, pick(rng, height(columns), most)), classes)
        for columns in (case.original, case.released)
    )
    sampled = most < max(case.n, case.n_released)
    if not pairs:
        return [], before, after
    parts = {
        f"{case.names[i]} × {case.names[j]}": float(abs(after[i, j] - before[i, j]))
        for i, j in pairs
    }
    return (
        [
            Measure(
                spec=CATALOGUE["associations"],
                value=float(np.mean(list(parts.values()))),
                basis=f"all {len(pairs)} pairs, "
                + (
                    f"{most:,} records at random"
                    if sampled
                    else f"{case.n_released:,} records, exact"
                ),
                sampled=sampled,
                baseline=float(np.mean([abs(before[i, j]) for i, j in pairs])),
                against="a release in which nothing depends on anything",
                parts=parts,
            )
        ],
        before,
        after,
    )
