"""Distributions of one, two and three attributes, beside those of a hold-out half.

The baseline is what honest sampling does: the distance between the two halves of the
original (or between the original and the hold-out). A release near it is as good as fresh
data.
"""

from __future__ import annotations

import itertools
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
    chosen = list(itertools.combinations(case.names, ways))
    every = len(chosen)
    if ways == 3 and every > case.limits.triples:
        picked = case.rng("triples").choice(every, case.limits.triples, replace=False)
        chosen = [chosen[i] for i in sorted(picked)]
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


def _reference(case: Case, classes: Classes, before: Coded) -> tuple[Coded, Coded, str]:
    if case.holdout is not None:
        return before, classes.code(case.holdout), "the hold-out table against the original"
    half = case.rng("halves").random(case.n) < 0.5
    one = {name: codes[half] for name, codes in before.items()}
    other = {name: codes[~half] for name, codes in before.items()}
    return one, other, "one random half of the original against the other"
