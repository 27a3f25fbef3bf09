"""Joint releases: what one owner learns of another from its own part and the release.

Vertical fragments: an owner knows its own columns of everybody and, through the shared
pseudonym, which released row is whose. It reads the other owners' cells off that row. What it
could have guessed anyway is measured by a tree that predicts each cell from the owner's own
columns, trained on the released rows of half of the people and tested on the other half.
The aggregator holds no columns: it is the owner without any, and learns what the release shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.attacks.cell_attacks import CLOSE
from sherd.auditing.case.case import matrix, pick
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

_MOST = 10_000


def insider(case: Case, owners: Mapping[str, Sequence[str]]) -> list[Measure]:
    """The share of other owners' cells that each owner recovers, the worst owner first."""
    rng = case.rng("insider")
    rows = rng.permutation(pick(rng, case.n_released, _MOST))
    train, test = rows[::2], rows[1::2]
    if len(test) < 20:
        return []
    parts: dict[str, float] = {}
    base: dict[str, float] = {}
    for owner, own in owners.items():
        others = [name for name in case.protected if name not in own]
        known = [name for name in own if name in case.names]
        hits, guesses = [], []
        for name in others:
            truth, released = case.paired(name)
            hits.append(_right(case, name, released[test], truth[test]))
            guess = _guess(case, known, name, train, test)
            guesses.append(_right(case, name, guess, truth[test]))
        if others:
            parts[owner] = float(np.mean(hits))
            base[owner] = float(np.mean(guesses))
    if not parts:
        return []
    worst = max(parts, key=lambda owner: parts[owner] - base[owner])
    low, high = clopper_pearson(parts[worst] * len(test), len(test))
    return [
        Measure(
            spec=CATALOGUE["insider"],
            value=parts[worst],
            low=low,
            high=high,
            basis=f"{len(test):,} persons at random, by {worst} (interval as for one attribute)",
            baseline=base[worst],
            against="predicting from the owner's own columns",
            parts=parts,
            sampled=len(rows) < case.n_released,
        )
    ]


def _right(case: Case, name: str, guess: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    present = ~(np.isnan(guess) | np.isnan(truth))
    if not present.any():
        return 0.0
    guess, truth = guess[present], truth[present]
    if case.scales[name].labels is not None:
        return float(np.mean(np.rint(guess) == truth))
    whole = case.original[name]
    width = float(np.nanmax(whole) - np.nanmin(whole))
    return float(np.mean(np.abs(guess - truth) <= CLOSE * width))


def _guess(
    case: Case,
    known: list[str],
    name: str,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
) -> NDArray[np.float64]:
    assert case.order is not None
    y = case.released[name][train]
    present = ~np.isnan(y)
    nominal = case.scales[name].labels is not None
    if not known or not present.any():
        middle = float(np.median(y[present])) if present.any() else 0.0
        return np.full(len(test), np.rint(middle) if nominal else middle)
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    # The owner knows its own columns as they are.
    own = {column: case.original[column][case.order] for column in known}
    model = (DecisionTreeClassifier if nominal else DecisionTreeRegressor)(
        min_samples_leaf=5, random_state=0
    )
    model.fit(matrix(own, known, train[present]), y[present])
    guessed: NDArray[np.float64] = model.predict(matrix(own, known, test)).astype(np.float64)
    return guessed


def attack_of(owners: Mapping[str, Sequence[str]]) -> Attack:
    """The insiders' attack for the given owners and their columns."""
    return Attack(
        name="insider",
        title="An owner against the others",
        knows="its own columns of everybody, and which released row is whose",
        does="reads the other owners' cells off the released rows",
        wins="when a number is within 1 % of the range, a label right",
        source="sherd",
        run=lambda case: insider(case, owners),
    )
