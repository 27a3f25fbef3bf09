"""The experiment: run a mechanism many times on a worst-case table and its worst neighbour.

The tables are chosen for the method: for dp-um and idp-ls two clusters at the low end and in
the middle of the domain, with one lowest value moved to the top; for idp-cbls three clusters
of evenly spaced values with the lowest moved above the highest; for dp and idp one value moved
from end to end. *Frozen* draws the ordered centroids of both tables with the noise of the first
(what individual differential privacy compares), *recomputed* really runs the method on both.

What is looked at is the vector of ordered centroids: that is what the claims cover. Which rows
share a cluster is visible besides, at any epsilon; the co-cluster attack shows it.

``lower_bound`` bounds the privacy loss by runs on two neighbouring tables. Each run is one score.
On one half of the runs an event is chosen (a score above or below some threshold), on the other
half its probabilities p and q under the two tables are bounded by Clopper and Pearson, each at half
the level: with confidence 1 − alpha, log(p_low / q_high) is at most the true loss. Choosing on one
half and testing on the other is what makes the level honest: the best-looking event of many would
be found by luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sherd.auditing.epsilon.mechanism import Mechanism, scales, sizes, sums

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


FROZEN_RUNS = 200_000
REAL_RUNS = 6_000

_TINY = 1e-9


class Centroids(Protocol):
    """Runs a method for real: noisy ordered centroids, one row a run.

    For methods without clusters the "centroids" are the released values, row by row.
    """

    def __call__(self, values: NDArray[np.float64], runs: int, seed: int) -> NDArray[np.float64]:
        """Run it so many times on a column of sorted values."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Two neighbouring columns, sorted, and the mechanism that is claimed to hide which."""

    mechanism: Mechanism
    table: NDArray[np.float64]
    neighbour: NDArray[np.float64]

    def centres(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The centroids without noise."""
        if self.mechanism.single:
            return values
        return sums(values, self.mechanism) / sizes(len(values), self.mechanism.k)

    def spreads(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The scales of the noise on the centroids."""
        if self.mechanism.single and self.mechanism.reach == "domain":
            return np.full(len(values), self.mechanism.width / self.mechanism.epsilon)
        if self.mechanism.single:
            reach = np.maximum(self.mechanism.high - values, values - self.mechanism.low)
            return reach / self.mechanism.epsilon
        return scales(values, self.mechanism) / sizes(len(values), self.mechanism.k)

    def exact(self) -> float:
        """The exact loss between the two, under the noise of the first."""
        shift = np.abs(self.centres(self.neighbour) - self.centres(self.table))
        noise = self.spreads(self.table)
        moved = shift > _TINY * self.mechanism.width
        if (moved & (noise <= 0)).any():
            return float("inf")
        return float(np.sum(shift[moved] / noise[moved]))

    def score(self, seen: NDArray[np.float64], *, frozen: bool) -> NDArray[np.float64]:
        """The log likelihood ratio of the neighbour over the table: the best score there is."""
        total = np.zeros(len(seen))
        for sign, values in ((1.0, self.table), (-1.0, self.neighbour)):
            noise = self.spreads(self.table if frozen else values)
            noise = np.maximum(noise, _TINY * self.mechanism.width)
            terms = np.abs(seen - self.centres(values)) / noise + np.log(noise)
            total += sign * terms.sum(axis=1)
        # The low bits of a floating-point sum tell which centroid was added (Mironov 2012): a
        # threshold between them would measure our arithmetic, not the mechanism.
        return np.round(total, 6)


def worst_case(
    masking: Mapping[str, str], k: int, *, epsilon: float = 1.0, **other: float | bool
) -> Experiment:
    """The experiment that shows a ranking method at its worst, by what it declares."""
    base = Mechanism(
        centre=masking["centre"], reach=masking["reach"], k=k, epsilon=epsilon, low=0.0, high=1.0
    )
    base = replace(base, **other)  # type: ignore[arg-type]
    if base.single:
        table = np.array([0.0, 0.5, 1.0])
        return Experiment(mechanism=base, table=table, neighbour=np.array([1.0, *table[1:]]))
    if base.centre == "trimmed":
        # Evenly spaced over three clusters, one step below the top: everything moves by a step.
        steps = 3 * k + 1
        table = np.arange(1, steps) / steps
        return Experiment(mechanism=base, table=table, neighbour=np.append(table[1:], 1.0))
    table = np.repeat([0.0, 0.5], k)
    return Experiment(mechanism=base, table=table, neighbour=np.append(table[1:], 1.0))


def frozen_bound(
    experiment: Experiment, *, seed: int, runs: int = FROZEN_RUNS, alpha: float = 0.05
) -> Bound:
    """The measured loss with the noise of the first table on both."""
    rng = np.random.default_rng(seed)
    noise = experiment.spreads(experiment.table)
    scores = []
    for values in (experiment.table, experiment.neighbour):
        seen = experiment.centres(values) + rng.laplace(size=(runs, len(noise))) * noise
        seen = np.round(seen, 6)  # on a grid, as the methods release
        np.clip(seen, experiment.mechanism.low, experiment.mechanism.high, out=seen)
        scores.append(experiment.score(seen, frozen=True))
    return lower_bound(scores[0], scores[1], alpha=alpha)


def real_bound(
    experiment: Experiment,
    run: Centroids,
    *,
    seed: int,
    runs: int = REAL_RUNS,
    alpha: float = 0.05,
) -> Bound:
    """The measured loss of the method as it really runs on either table."""
    scores = [
        experiment.score(run(values, runs, 2 * seed + i), frozen=False)
        for i, values in enumerate((experiment.table, experiment.neighbour))
    ]
    return lower_bound(scores[0], scores[1], alpha=alpha)


_THRESHOLDS = 200


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What the runs show: with confidence 1 − alpha the loss is at least ``lower``.

    ``hits`` and ``trials`` count the event's occurrences on the testing half, first where it
    is more likely, then where it is less.
    """

    lower: float
    estimate: float
    hits: tuple[int, int]
    trials: tuple[int, int]
    event: str
    alpha: float

    def exceeds(self, claimed: float) -> bool:
        """Whether the claim is refuted, wrongly with probability at most alpha."""
        return self.lower > claimed

    def words(self) -> str:
        """The counts behind the bound."""
        return (
            f"an event chosen beforehand ({self.event}) seen in {self.hits[0]:,} of "
            f"{self.trials[0]:,} runs on one table and {self.hits[1]:,} of {self.trials[1]:,} on "
            "its neighbour"
        )


def lower_bound(
    first: NDArray[np.float64], second: NDArray[np.float64], *, alpha: float = 0.05
) -> Bound:
    """The bound from the scores of runs on a table and on its neighbour."""
    cut_first, cut_second = len(first) // 2, len(second) // 2
    choosing = np.sort(first[:cut_first]), np.sort(second[:cut_second])
    testing = first[cut_first:], second[cut_second:]
    swapped, above, threshold = _choose(choosing[0], choosing[1], alpha)
    likely, rare = testing[::-1] if swapped else testing
    hits = [
        int(np.count_nonzero(scores >= threshold if above else scores <= threshold))
        for scores in (likely, rare)
    ]
    low, high = _bounds(np.array(hits[:1]), len(likely), np.array(hits[1:]), len(rare), alpha)
    lower = math.log(low[0] / high[0]) if low[0] > 0 else 0.0
    p, q = hits[0] / len(likely), max(hits[1], 0.5) / len(rare)
    return Bound(
        lower=max(0.0, lower),
        estimate=max(0.0, math.log(p / q)) if p > 0 else 0.0,
        hits=(hits[0], hits[1]),
        trials=(len(likely), len(rare)),
        event=f"score {'at least' if above else 'at most'} {threshold:.4g}",
        alpha=alpha,
    )


def _choose(
    first: NDArray[np.float64], second: NDArray[np.float64], alpha: float
) -> tuple[bool, bool, float]:
    """The event with the best bound on the choosing half: (tables swapped, above, threshold)."""
    pooled = np.concatenate([first, second])
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.001, 0.999, _THRESHOLDS)))
    best = (-math.inf, False, True, float(thresholds[0]))
    for swapped in (False, True):
        likely, rare = (second, first) if swapped else (first, second)
        for above in (True, False):
            counts = [_count(scores, thresholds, above) for scores in (likely, rare)]
            low, high = _bounds(counts[0], len(likely), counts[1], len(rare), alpha)
            with np.errstate(divide="ignore"):
                values = np.log(low) - np.log(high)
            place = int(np.argmax(values))
            best = max(best, (float(values[place]), swapped, above, float(thresholds[place])))
    return best[1:]


def _count(
    ordered: NDArray[np.float64], thresholds: NDArray[np.float64], above: bool
) -> NDArray[np.int64]:
    """How many scores lie at or beyond each threshold."""
    if above:
        return len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    return np.searchsorted(ordered, thresholds, side="right")


def _bounds(
    hits: NDArray[np.int64], trials: int, others: NDArray[np.int64], of: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower bounds of one probability, upper bounds of the other, at half the level each."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, alpha / 2), 0.0)
    high = np.where(
        others < of, betaincinv(others + 1, np.maximum(of - others, 1), 1 - alpha / 2), 1.0
    )
    return low, high
