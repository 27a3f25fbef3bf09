"""Means, variances, quantiles, associations and distributions of up to three attributes.

For distributions every attribute is cut into a few classes, the same for original and release.

The baseline of distributions is what honest sampling does: the distance between the two halves of
the original (or between the original and the hold-out). A release near it is as good as fresh data.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.case.case import height, pick, take
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, mean_interval

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns


CELLS = 1_000_000_000
"""Pairs of attributes times records up to which associations use every record."""

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

MOST_LABELS = 40
"""Labels of one attribute told apart; the rarer ones share a class."""

Coded = dict[str, "NDArray[np.int16]"]


def edges_of(values: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Inner edges of classes of about equal frequency; values that are few stay apart.

    >>> edges_of(np.array([1.0, 1.0, 2.0, 3.0]), 10).tolist()
    [1.5, 2.5]
    """
    present = values[~np.isnan(values)]
    if not present.size:
        return np.empty(0)
    # Unique values of a sample decide whether they are few; all values decide the edges.
    few = np.unique(present if present.size < 100_000 else present[:: present.size // 100_000])
    if len(few) <= classes:
        distinct = np.unique(present)
        if len(distinct) <= classes:
            return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(present, np.arange(1, classes) / classes))


class Classes:
    """Turns columns into class numbers; class 0 is 'missing'."""

    def __init__(self, case: Case, numbers: int = 10) -> None:
        self.edges: dict[str, NDArray[np.float64]] = {}
        self.labels: dict[str, NDArray[np.int16]] = {}
        for name in case.names:
            scale = case.scales[name]
            if scale.labels is None:
                self.edges[name] = edges_of(case.original[name], numbers)
            else:
                self.labels[name] = _label_classes(case.original[name], len(scale.labels))
        self.sizes: Mapping[str, int] = {
            name: (
                len(self.edges[name]) + 2
                if name in self.edges
                else int(self.labels[name].max(initial=0)) + 1
            )
            for name in case.names
        }

    def code(self, columns: Columns) -> Coded:
        """Class numbers of every column."""
        return {name: self._one(name, columns[name]) for name in self.sizes}

    def _one(self, name: str, values: NDArray[np.float64]) -> NDArray[np.int16]:
        missing = np.isnan(values)
        if name in self.edges:
            classes = (np.searchsorted(self.edges[name], values, side="left") + 1).astype(np.int16)
        else:
            table = self.labels[name]
            classes = table[np.where(missing, 0, values).astype(np.int64)]
        if missing.any():
            classes[missing] = 0
        return classes


def _label_classes(values: NDArray[np.float64], labels: int) -> NDArray[np.int16]:
    """A class for each label: its own, or the shared last one for the rarest."""
    if labels <= MOST_LABELS:
        return np.arange(1, labels + 1, dtype=np.int16)
    counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=labels)
    common = np.argsort(-counts, kind="stable")[: MOST_LABELS - 1]
    classes = np.full(labels, MOST_LABELS, np.int16)
    classes[common] = np.arange(1, MOST_LABELS, dtype=np.int16)
    return classes


def histogram(
    coded: Coded, sizes: Mapping[str, int], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """The joint distribution of some attributes, as shares."""
    index = coded[names[0]].astype(np.int32)
    total = sizes[names[0]]
    for name in names[1:]:
        index *= sizes[name]
        index += coded[name]
        total *= sizes[name]
    return np.bincount(index, minlength=total) / len(index)


def total_variation(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Half the sum of absolute differences of two distributions.

    >>> total_variation(np.array([0.5, 0.5]), np.array([0.25, 0.75]))
    0.25
    """
    return float(np.abs(p - q).sum() / 2)


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
    measures = []
    for code, parts in (("means", means), ("variances", variances), ("quantiles", quantiles)):
        if parts:
            value = float(np.mean(list(parts.values())))
            measures.append(Measure(spec=CATALOGUE[code], value=value, basis=basis, parts=parts))
    return measures


def _present(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values[~np.isnan(values)]


def association_matrix(case: Case, columns: Columns, classes: Classes) -> NDArray[np.float64]:
    """Pearson's correlation of two numbers, Cramér's V of anything else, for all pairs.

    Both are over the records that have both values: cells that are missing together (a part
    that was withdrawn) are no dependence of the values.
    """
    names = case.names
    coded = classes.code(columns)
    strengths = np.eye(len(names))
    for (i, a), (j, b) in itertools.combinations(enumerate(names), 2):
        if case.scales[a].labels is None and case.scales[b].labels is None:
            value = _pearson(columns[a], columns[b])
        else:
            joint = histogram(coded, classes.sizes, (a, b))
            value = cramers_v(joint.reshape(classes.sizes[a], classes.sizes[b])[1:, 1:])
        strengths[i, j] = strengths[j, i] = value
    return strengths


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


WAYS = {1: 10, 2: 10, 3: 5}
"""Classes of numbers by the number of attributes looked at together."""


def marginals(case: Case) -> list[Measure]:
    """Distances of 1-, 2- and 3-way marginals."""
    measures = []
    for ways, numbers in WAYS.items():
        if len(case.names) < ways:
            continue
        measures.append(_distance(case, ways, Classes(case, numbers)))
    return measures


def _distance(case: Case, ways: int, classes: Classes) -> Measure:
    every = math.comb(len(case.names), ways)
    chosen = _sets(case, ways, every)
    before, after = classes.code(case.original), classes.code(case.released)
    one, other, words = _reference(case, classes, before)
    parts, honest = {}, []
    for names in chosen:
        real = histogram(before, classes.sizes, names)
        parts[" × ".join(names)] = total_variation(real, histogram(after, classes.sizes, names))
        honest.append(
            total_variation(
                histogram(one, classes.sizes, names), histogram(other, classes.sizes, names)
            )
        )
    values = np.array(list(parts.values()))
    sampled = len(chosen) < every
    low, high = mean_interval(values) if sampled else (None, None)
    noun = {1: "attributes", 2: "pairs", 3: "triples"}[ways]
    which = f"{len(chosen)} of {every} {noun} at random" if sampled else f"all {every} {noun}"
    return Measure(
        spec=CATALOGUE[f"marginals-{ways}"],
        value=float(values.mean()),
        low=low,
        high=high,
        basis=f"{which}, {case.n_released:,} records",
        baseline=float(np.mean(honest)),
        against=words,
        parts=parts,
        sampled=sampled,
    )


def _sets(case: Case, ways: int, every: int) -> list[tuple[str, ...]]:
    """All sets of so many attributes, or some of them at random."""
    most = {1: every, 2: case.limits.pairs, 3: case.limits.triples}[ways]
    if every <= max(most, 5_000):
        chosen = list(itertools.combinations(case.names, ways))
        if every <= most:
            return chosen
        picked = case.rng("triples").choice(every, most, replace=False)
        return [chosen[i] for i in sorted(picked)]
    rng = case.rng("triples")
    drawn: set[tuple[int, ...]] = set()  # so many sets are not written out
    while len(drawn) < most:
        drawn.add(tuple(sorted(rng.choice(len(case.names), ways, replace=False).tolist())))
    return [tuple(case.names[i] for i in one) for one in sorted(drawn)]


def _reference(case: Case, classes: Classes, before: Coded) -> tuple[Coded, Coded, str]:
    if case.holdout is not None:
        return before, classes.code(case.holdout), "the hold-out table against the original"
    half = case.rng("halves").random(case.n) < 0.5
    one = {name: codes[half] for name, codes in before.items()}
    other = {name: codes[~half] for name, codes in before.items()}
    return one, other, "one random half of the original against the other"
