"""The propensity score: whether a model can tell released records from originals.

A random forest is trained on one half of a mixture of both and scored on the other, then
the other way round, so that no record is scored by a model that saw it. The same on the
original's own halves gives the baseline. (The usual pMSE of a logistic model is blind to
changes that leave averages alone, and in-sample scores reward overfitting.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.utility.features import matrix, pick
from sherd.auditing.verdict.confidence_intervals import ranks
from sherd.auditing.verdict.measure import Measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case


def propensity(case: Case) -> list[Measure]:
    """PMSE and the area under the curve, beside those of the original's own halves."""
    rng = case.rng("propensity")
    most = case.limits.compared // 2
    rows, others = _disjoint(case, rng, most)
    before = matrix(case.original, case.names, rows)
    after = matrix(case.released, case.names, others)
    if min(len(before), len(after)) < 20:
        return []
    scores, truth = _scores(before, after, rng)
    if case.holdout is not None:
        honest = matrix(case.holdout, case.names, pick(rng, len(case.holdout[case.names[0]]), most))
        one, other = before, honest
        words = "the hold-out table against the original"
    else:
        half = rng.permutation(len(before))
        one, other = before[half[::2]], before[half[1::2]]
        words = "one random half of the original against the other"
    fair, fair_truth = _scores(one, other, rng)
    area, low, high = _area(scores, truth)
    fair_area, _, _ = _area(fair, fair_truth)
    squares = np.square(scores - truth.mean())
    spread = 1.96 * float(squares.std()) / np.sqrt(len(squares))
    pmse = float(squares.mean())
    basis = f"{len(before):,} original and {len(after):,} released records"
    sampled = len(before) < case.n
    basis += " at random" if sampled else ""
    return [
        Measure(
            spec=CATALOGUE["pmse"],
            value=pmse,
            low=max(0.0, pmse - spread),
            high=pmse + spread,
            basis=basis,
            baseline=float(np.square(fair - fair_truth.mean()).mean()),
            against=words,
            sampled=sampled,
        ),
        Measure(
            spec=CATALOGUE["distinguishable"],
            value=area,
            low=low,
            high=high,
            basis=basis,
            baseline=fair_area,
            against=words,
            sampled=sampled,
        ),
    ]


def _disjoint(
    case: Case, rng: np.random.Generator, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Original and released rows of different persons, as far as the pairs are known.

    A record and its own copy in the two halves would teach the model the opposite of the truth.
    """
    if case.order is None:
        return pick(rng, case.n, most), pick(rng, case.n_released, most)
    shuffled = rng.permutation(case.n_released)
    half = min(most, len(shuffled) // 2)
    return case.order[shuffled[:half]], shuffled[half : 2 * half]


def _scores(
    first: NDArray[np.float32], second: NDArray[np.float32], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from sklearn.ensemble import RandomForestClassifier

    x = np.nan_to_num(np.vstack([first, second]), nan=-1.0)
    truth = np.concatenate([np.zeros(len(first)), np.ones(len(second))])
    fold = rng.permutation(len(x)) % 2
    scores = np.empty(len(x))
    for held in (0, 1):
        model = RandomForestClassifier(
            n_estimators=40, min_samples_leaf=10, random_state=0, n_jobs=2
        )
        model.fit(x[fold != held], truth[fold != held])
        scores[fold == held] = model.predict_proba(x[fold == held])[:, 1]
    return scores, truth


def _area(scores: NDArray[np.float64], truth: NDArray[np.float64]) -> tuple[float, float, float]:
    """The area under the curve with the interval of Hanley and McNeil (1982)."""
    ones = int(truth.sum())
    zeros = len(truth) - ones
    area = float((ranks(scores)[truth == 1].sum() - ones * (ones + 1) / 2) / (ones * zeros))
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (ones - 1) * (q1 - area**2) + (zeros - 1) * (q2 - area**2)
    spread = 1.96 * float(np.sqrt(max(0.0, variance) / (ones * zeros)))
    return area, max(0.0, area - spread), min(1.0, area + spread)
