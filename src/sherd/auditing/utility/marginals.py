"""Distributions of one, two and three attributes, beside those of a hold-out half.

The baseline is what honest sampling does: the distance between the two halves of the
original (or between the original and the hold-out). A release near it is as good as fresh
data.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.case.classes import Classes, Coded, histogram, total_variation
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.confidence_intervals import mean_interval
from sherd.auditing.verdict.measure import Measure

if TYPE_CHECKING:
    from sherd.auditing.case.case import Case

WAYS = {1: 10, 2: 10, 3: 5}
"""Classes of numbers by the number of attributes looked at together."""


def marginals(case: Case) -> list[Measure]:
    """Distances of 1-, 2- and 3-way marginals."""
    found = []
    for ways, numbers in WAYS.items():
        if len(case.names) < ways:
            continue
        found.append(_distance(case, ways, Classes(case, numbers)))
    return found


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
    found: set[tuple[int, ...]] = set()  # so many sets are not written out
    while len(found) < most:
        found.add(tuple(sorted(rng.choice(len(case.names), ways, replace=False).tolist())))
    return [tuple(case.names[i] for i in one) for one in sorted(found)]


def _reference(case: Case, classes: Classes, before: Coded) -> tuple[Coded, Coded, str]:
    if case.holdout is not None:
        return before, classes.code(case.holdout), "the hold-out table against the original"
    half = case.rng("halves").random(case.n) < 0.5
    one = {name: codes[half] for name, codes in before.items()}
    other = {name: codes[~half] for name, codes in before.items()}
    return one, other, "one random half of the original against the other"
