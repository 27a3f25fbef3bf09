"""The experiment: run a mechanism many times on a worst-case table and its worst neighbour.

The tables are chosen for the method: for dp-um and idp-ls two clusters at the low end and in
the middle of the domain, with one lowest value moved to the top; for idp-cbls three clusters
of evenly spaced values with the lowest moved above the highest; for dp and idp one value moved
from end to end. *Frozen* draws the ordered centroids of both tables with the noise of the first
(what individual differential privacy compares), *recomputed* really runs the method on both.

What is looked at is the vector of ordered centroids: that is what the claims cover. Which rows
share a cluster is visible besides, at any epsilon; the co-cluster attack shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sherd.auditing.epsilon.bound import Bound, lower_bound
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
    found = []
    for values in (experiment.table, experiment.neighbour):
        seen = experiment.centres(values) + rng.laplace(size=(runs, len(noise))) * noise
        seen = np.round(seen, 6)  # on a grid, as the methods release
        np.clip(seen, experiment.mechanism.low, experiment.mechanism.high, out=seen)
        found.append(experiment.score(seen, frozen=True))
    return lower_bound(found[0], found[1], alpha=alpha)


def real_bound(
    experiment: Experiment,
    run: Centroids,
    *,
    seed: int,
    runs: int = REAL_RUNS,
    alpha: float = 0.05,
) -> Bound:
    """The measured loss of the method as it really runs on either table."""
    found = [
        experiment.score(run(values, runs, 2 * seed + i), frozen=False)
        for i, values in enumerate((experiment.table, experiment.neighbour))
    ]
    return lower_bound(found[0], found[1], alpha=alpha)
