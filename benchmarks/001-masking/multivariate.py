"""Why there is no ``idp-mv``: multivariate microaggregation moves too much with one record.

Paper 001 leaves multivariate microaggregation as future work. This measures the standard
algorithm, MDAV, on the paper's tables: one record is substituted by another, all is clustered
again, and the clusters' sums before and after are matched as well as they can be. What the sums
of one attribute move in all, in ranges of that attribute, is what noise on them would have to
cover; for clusters of consecutive values of a sorted attribute (individual ranking) it is 1.

    python benchmarks/001-masking/multivariate.py --table wine --rows 1000
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Longs = NDArray[np.int64]


def mdav(points: Floats, k: int) -> Longs:
    """The cluster of every point by MDAV: k nearest to the farthest, and to the one opposite."""
    cluster = np.full(len(points), -1, dtype=np.int64)
    left = np.arange(len(points))
    number = 0

    def taken(centre: Floats) -> None:
        nonlocal left, number
        near = np.argsort(((points[left] - centre) ** 2).sum(axis=1), kind="stable")[:k]
        cluster[left[near]] = number
        number += 1
        left = np.delete(left, near)

    while len(left) >= 3 * k:
        middle = points[left].mean(axis=0)
        far = points[left[((points[left] - middle) ** 2).sum(axis=1).argmax()]]
        opposite = points[left[((points[left] - far) ** 2).sum(axis=1).argmax()]]
        taken(far)
        taken(opposite)
    if len(left) >= 2 * k:
        middle = points[left].mean(axis=0)
        taken(points[left[((points[left] - middle) ** 2).sum(axis=1).argmax()]])
    cluster[left] = number
    return cluster


def ranked(values: Floats, k: int) -> Longs:
    """The clusters of individual ranking: k consecutive values, the last takes the rest."""
    place = np.empty(len(values), dtype=np.int64)
    place[np.argsort(values, kind="stable")] = np.arange(len(values))
    return np.minimum(place // k, len(values) // k - 1)


def sums(points: Floats, cluster: Longs) -> Floats:
    """Every cluster's sum of every attribute."""
    found = np.zeros((int(cluster.max()) + 1, points.shape[1]))
    np.add.at(found, cluster, points)
    return found


def moved(before: Floats, after: Floats) -> float:
    """How far sums moved in all attributes together, clusters matched as well as they can be."""
    from scipy.optimize import linear_sum_assignment

    apart = np.abs(before[:, None, :] - after[None, :, :]).sum(axis=2)
    return float(apart[linear_sum_assignment(apart)].sum())


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What was measured for one table and k, movements in ranges an attribute."""

    mdav: list[float]
    ranking: list[float]
    sse_mdav: float
    sse_ranking: float

    def noisy(self, k: int, epsilon: float, *, multivariate: bool) -> float:
        """The mean squared error of a cell where Laplace noise covers what was seen to move."""
        shift = max(self.mdav) if multivariate else 1.0
        return (self.sse_mdav if multivariate else self.sse_ranking) + 2 * (
            shift / k / epsilon
        ) ** 2


def measured(points: Floats, k: int, substitutions: int, seed: int) -> Finding:
    """Cluster, substitute one record by a random other one, cluster again."""
    rng = np.random.default_rng(seed)
    low, high = points.min(axis=0), points.max(axis=0)
    scaled = (points - low) / np.where(high > low, high - low, 1)
    n_attributes = scaled.shape[1]
    first = mdav(scaled, k)
    orders = [ranked(column, k) for column in scaled.T]
    both: dict[str, list[float]] = {"mdav": [], "ranking": []}
    for _ in range(substitutions):
        changed = scaled.copy()
        changed[rng.integers(len(scaled))] = rng.random(n_attributes)
        again = mdav(changed, k)
        both["mdav"].append(moved(sums(scaled, first), sums(changed, again)) / n_attributes)
        apart = [
            np.abs(sums(scaled[:, [a]], orders[a])
                   - sums(changed[:, [a]], ranked(changed[:, a], k))).sum()
            for a in range(n_attributes)
        ]  # fmt: skip
        both["ranking"].append(float(max(apart)))
    centre = sums(scaled, first) / np.bincount(first)[:, None]
    within = [(sums(scaled[:, [a]], c)[:, 0] / np.bincount(c))[c] for a, c in enumerate(orders)]
    return Finding(
        mdav=both["mdav"],
        ranking=both["ranking"],
        sse_mdav=float(((scaled - centre[first]) ** 2).mean()),
        sse_ranking=float(((scaled - np.column_stack(within)) ** 2).mean()),
    )


def table(name: str, rows: int) -> Floats:
    """The first rows of one of the paper's tables, shuffled, as numbers."""
    from masked import data

    found = data(name)[0]
    points = np.column_stack(
        [found[column].to_numpy().astype(float) for column in found.column_names]
    )
    return points[np.random.default_rng(0).permutation(len(points))[:rows]]


def main() -> None:
    """Print what one substituted record moves, the errors, and how time grows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--table", choices=("wine", "census"), default="wine")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--substitutions", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    points = table(given.table, given.rows)
    print(f"{given.table}, {len(points)} records, {points.shape[1]} attributes; in ranges")
    print("k   MDAV moves (mean, largest)   ranking moves   MSE without noise   MSE with noise")
    for k in (5, 25):
        found = measured(points, k, given.substitutions, 1)
        noisy = [found.noisy(k, given.epsilon, multivariate=m) for m in (True, False)]
        print(
            f"{k:<3} {np.mean(found.mdav):8.2f} {max(found.mdav):8.2f} {max(found.ranking):18.2f}"
            f"   {found.sse_mdav:.5f}, {found.sse_ranking:.5f}   {noisy[0]:.4f}, {noisy[1]:.4f}"
        )
    times = []
    for n in (len(points) // 2, len(points)):
        begin = time.process_time()
        mdav(points[:n], 5)
        times.append(time.process_time() - begin)
    print(f"MDAV takes {times[1] / times[0]:.1f} times as long for twice the records (k = 5)")


if __name__ == "__main__":
    main()
