"""What a classifier learns from a release: trained on generalised records, tested on others.

As in wang2020, section 5.1: the cuts of the release are applied to records that were not in it,
and a classifier trained on the release's noisy counts predicts their class. A prediction depends
on a record's leaf alone, so a classifier is a class for every leaf.

``logistic`` is a regression on the intervals of a leaf and on pairs of them, held back by a
penalty of fixed strength. Every coefficient sees the noise of many leaves at once, where it
averages out; a tree follows it leaf by leaf. ``tree`` is scikit-learn's, for comparison.
"""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import MissingPartError, UsageError
from sherd.methods.specialising.partition import consistent
from sherd.methods.specialising.plain_oracle import part_of_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.partition import Partition

    Numbers = NDArray[np.int64]

CLASSIFIERS = ("logistic", "tree")

STRENGTH = 0.01
"""The inverse of the logistic regression's penalty."""


def accuracy(
    partition: Partition,
    n: int,
    codes: Sequence[Numbers],
    classes: Numbers,
    classifier: str = "logistic",
) -> float:
    """The share of other records, given by their codes, whose class is predicted.

    ``n`` is the public number of records behind the release.
    """
    leaf = np.zeros(len(classes), np.int64)
    for cut, column in zip(partition.specialised.cuts, codes, strict=True):
        leaf = leaf * (len(cut) - 1) + part_of_code(cut)[column]
    return float((classes_of_leaves(partition, n, classifier)[leaf] == classes).mean())


def classes_of_leaves(partition: Partition, n: int, classifier: str = "logistic") -> Numbers:
    """The class that is predicted in each leaf, from the release alone."""
    if classifier not in CLASSIFIERS:
        raise UsageError(
            "the classifier is unknown", must="one of " + ", ".join(CLASSIFIERS), got=classifier
        )
    n_classes = partition.counts.shape[1]
    weights = consistent(partition.counts.ravel(), n)
    used = weights > 0
    y = np.tile(np.arange(n_classes), partition.leaves)[used]
    if np.unique(y).size < 2:
        return np.full(partition.leaves, y[0] if y.size else 0, np.int64)
    x = _pairs(partition) if classifier == "logistic" else _ordinal(partition)
    model = _model(classifier)
    with warnings.catch_warnings():
        # A regression that stops before it has converged is one with a stronger penalty.
        warnings.simplefilter("ignore")
        model.fit(np.repeat(x, n_classes, axis=0)[used], y, sample_weight=weights[used])
    predicted: Numbers = np.asarray(model.predict(x), np.int64)
    return predicted


def _model(classifier: str) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.tree import DecisionTreeClassifier
    except ImportError:
        raise MissingPartError(
            "no classifier is installed", must="scikit-learn", do="install sherd[report]"
        ) from None
    if classifier == "tree":
        return DecisionTreeClassifier(max_depth=10, ccp_alpha=0.0005, random_state=0)
    return LogisticRegression(C=STRENGTH, max_iter=60)


def _indicators(partition: Partition) -> dict[int, NDArray[np.float64]]:
    """For each attribute that was specialised, which interval a leaf lies in, as 0s and a 1."""
    leaf = np.arange(partition.leaves)
    return {
        a: np.eye(parts)[partition.parts(a, leaf)]
        for a, parts in enumerate(partition.shape)
        if parts > 1
    }


def _pairs(partition: Partition) -> NDArray[np.float64]:
    """Intervals and pairs of intervals of every leaf."""
    single = _indicators(partition)
    columns = list(single.values())
    for a, b in itertools.combinations(single, 2):
        both = single[a][:, :, None] * single[b][:, None, :]
        columns.append(both.reshape(partition.leaves, -1))
    return np.concatenate([np.zeros((partition.leaves, 1)), *columns], axis=1)


def _ordinal(partition: Partition) -> NDArray[np.float64]:
    """Numbers of intervals where an attribute is measured, indicators where it has labels."""
    leaf = np.arange(partition.leaves)
    columns: list[NDArray[Any]] = [np.zeros((partition.leaves, 1))]
    for a, indicators in _indicators(partition).items():
        plain = partition.hierarchies[a].numeric or partition.shape[a] == 2
        columns.append(partition.parts(a, leaf)[:, None] if plain else indicators)
    return np.concatenate(columns, axis=1)
