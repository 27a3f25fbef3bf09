"""Models trained on the release and tested on originals, beside models trained on originals.

A random forest as in soria-comas2025, a decision tree as in the papers on joint releases.
With a hold-out table, it is the test set. Without one a random 30 % of the originals is:
the model of the originals never sees them; of the release, only rows that do not stem from
them are used where the pairs are known, and otherwise a random 70 % (which is said).

The propensity score says whether a model can tell released records from originals. A random
forest is trained on one half of a mixture of both and scored on the other, then the other way
round, so that no record is scored by a model that saw it. The same on the original's own halves
gives the baseline. (The usual pMSE of a logistic model is blind to
changes that leave averages alone, and in-sample scores reward overfitting.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.case.case import matrix, pick
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, clopper_pearson, ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns


FEW = 20
"""A target of numbers with more distinct values than this is predicted as a number."""


@dataclass(frozen=True, kw_only=True)
class _Split:
    released: tuple[NDArray[np.float32], NDArray[np.float64]]
    original: tuple[NDArray[np.float32], NDArray[np.float64]]
    test: tuple[NDArray[np.float32], NDArray[np.float64]]
    words: str
    caution: str = ""


def models(case: Case) -> list[Measure]:
    """What models trained on the release are worth on real records."""
    assert case.target is not None
    split = _split(case)
    if min(len(part[1]) for part in (split.released, split.original, split.test)) < 20:
        return []
    values = case.original[case.target]
    numeric = case.scales[case.target].labels is None
    if numeric and len(np.unique(values[~np.isnan(values)])) > FEW:
        return _regression(split)
    return [*_classification(split, "forest"), *_classification(split, "tree")]


def _split(case: Case) -> _Split:
    rng = case.rng("models")
    caution = ""
    most = case.limits.modelled
    if case.holdout is not None:
        held = pick(rng, len(case.holdout[case.names[0]]), most // 2)
        test = _part(case, case.holdout, held)
        mine, theirs = np.arange(case.n), np.arange(case.n_released)
        words = "tested on the hold-out table"
    else:
        shuffled = rng.permutation(case.n)
        cut = max(1, int(0.3 * case.n))
        test = _part(case, case.original, shuffled[:cut][: most // 2])
        mine = shuffled[cut:]
        if case.order is not None:
            in_test = np.zeros(case.n, np.bool_)
            in_test[shuffled[:cut]] = True
            theirs = np.flatnonzero(~in_test[case.order])
            words = "tested on 30 % of the originals, whose released rows were left out"
        else:
            theirs = rng.permutation(case.n_released)[: int(0.7 * case.n_released)]
            caution = "without a row map, it may have been trained on the records it was tested on"
            words = "tested on 30 % of the originals; their released rows are not known and may "
            words += "have taken part"
    mine = mine[pick(rng, len(mine), most)]
    theirs = theirs[pick(rng, len(theirs), most)]
    words += f"; {len(theirs):,} released rows, {len(test[1]):,} test records"
    return _Split(
        released=_part(case, case.released, theirs),
        original=_part(case, case.original, mine),
        test=test,
        words=words,
        caution=caution,
    )


def _part(
    case: Case, columns: Columns, rows: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    assert case.target is not None
    y = columns[case.target][rows]
    rows = rows[~np.isnan(y)]
    names = [name for name in case.names if name != case.target]
    x = matrix(columns, names, rows)
    # Forests of the library that is used cannot branch on a gap in training data they lack.
    np.nan_to_num(x, copy=False, nan=-1.0)
    return x, columns[case.target][rows]


def _model(kind: str) -> Any:
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(n_estimators=60, min_samples_leaf=2, random_state=0, n_jobs=2)
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=12, min_samples_leaf=5, random_state=0)


def _classification(split: _Split, kind: str) -> list[Measure]:
    x, y = split.test
    truth = np.rint(y).astype(np.int64)
    measures = {}
    for who, (train_x, train_y) in (("released", split.released), ("original", split.original)):
        model = _model(kind).fit(train_x, np.rint(train_y).astype(np.int64))
        measures[who] = model.predict(x)
    most = int(np.bincount(truth - truth.min()).argmax() + truth.min())
    hits = int(np.count_nonzero(measures["released"] == truth))
    low, high = clopper_pearson(hits, len(truth))
    f_low, f_high = _f_interval(truth, measures["released"])
    majority = float(np.mean(truth == most))
    words = "the same model trained on originals"
    return [
        Measure(
            spec=CATALOGUE[f"{kind}-accuracy"],
            value=hits / len(truth),
            low=low,
            high=high,
            basis=f"{split.words}; always guessing the most frequent class gets {majority:.3f}",
            baseline=float(np.mean(measures["original"] == truth)),
            against=words,
            sampled=True,
            floor=majority,
            caution=split.caution,
        ),
        Measure(
            spec=CATALOGUE[f"{kind}-f"],
            value=macro_f(truth, measures["released"]),
            low=f_low,
            high=f_high,
            basis=split.words,
            baseline=macro_f(truth, measures["original"]),
            against=words,
            sampled=True,
        ),
    ]


def macro_f(truth: NDArray[np.int64], guessed: NDArray[np.int64]) -> float:
    """The F-measure of each class that occurs, averaged.

    >>> round(macro_f(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])), 4)
    0.7333
    """
    scores = []
    for one in np.unique(truth):
        right = np.count_nonzero((truth == one) & (guessed == one))
        total = np.count_nonzero(truth == one) + np.count_nonzero(guessed == one)
        scores.append(2 * right / total)
    return float(np.mean(scores))


def _f_interval(truth: NDArray[np.int64], guessed: NDArray[np.int64]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    n = len(truth)
    draws = [
        macro_f(truth[rows], guessed[rows])
        for rows in (rng.integers(n, size=n) for _ in range(100))
    ]
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(low), float(high)


def _regression(split: _Split) -> list[Measure]:
    from sklearn.ensemble import RandomForestRegressor

    x, y = split.test
    spread = float(np.square(y - y.mean()).sum()) or 1.0
    scores, errors = {}, np.zeros(1)
    for who, (train_x, train_y) in (("released", split.released), ("original", split.original)):
        model = RandomForestRegressor(n_estimators=40, min_samples_leaf=3, random_state=0, n_jobs=2)
        wrong = np.square(model.fit(train_x, train_y).predict(x) - y)
        scores[who] = 1 - float(wrong.sum()) / spread
        errors = wrong if who == "released" else errors
    half = 1.96 * float(errors.std()) * np.sqrt(len(errors)) / spread
    return [
        Measure(
            spec=CATALOGUE["forest-r2"],
            value=scores["released"],
            low=scores["released"] - half,
            high=scores["released"] + half,
            basis=split.words,
            baseline=scores["original"],
            against="the same model trained on originals",
            sampled=True,
            floor=0.0,
            caution=split.caution,
        )
    ]


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
