"""The ranking methods as the papers define them, written anew: sums, scales, exact losses.

Nothing here is shared with the methods themselves, so that a slip in one shows in the other:
losses are computed by making the clusters of the changed table anew and comparing sums, not
by the formulas the methods use. Notation: n sorted values, p = floor(n/k) clusters, the last
takes the remainder; R = high − low; b_j the scale of the Laplace noise on cluster j's sum.

>>> halves = np.array([0, 0, 0, .5, .5, .5])
>>> exact_loss(halves, Mechanism(method="idp-ls", k=3, epsilon=1.0, low=0.0, high=1.0))
1.5
>>> nine = np.arange(1.0, 10)
>>> round(exact_loss(nine, Mechanism(method="idp-cbls", k=3, epsilon=1.0, low=0.0, high=10.0)), 9)
3.0
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANKING = ("dp-um", "idp-ls", "idp-cbls")
SINGLE = ("dp", "idp")


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One attribute's ranking mechanism: method, cluster size, share of epsilon, domain.

    ``floor`` is the least scale on a centroid; ``enlarge`` multiplies all scales until the
    exact loss is at most epsilon, as the promise ``centroids`` does. ``step`` is the grid, 0
    where it is not known.
    """

    method: str
    k: int
    epsilon: float
    low: float
    high: float
    floor: float = 0.0
    enlarge: bool = False
    step: float = 0.0

    @property
    def clusters(self) -> bool:
        """Whether records share released values: those of one cluster."""
        return self.method in RANKING and self.k > 1

    @property
    def width(self) -> float:
        """The width R of the domain."""
        return self.high - self.low


def sizes(n: int, k: int) -> NDArray[np.int64]:
    """The number of records in each cluster."""
    found = np.full(n // k, k, np.int64)
    found[-1] += n - k * len(found)
    return found


def sums(ordered: NDArray[np.float64], mechanism: Mechanism) -> NDArray[np.float64]:
    """The sum of each cluster; trimmed for idp-cbls."""
    starts = np.arange(len(ordered) // mechanism.k) * mechanism.k
    found = np.add.reduceat(ordered, starts)
    if mechanism.method == "idp-cbls":
        ends = np.append(starts[1:], len(ordered))
        found = (
            found - ordered[starts] + ordered[starts + 1] - ordered[ends - 1] + ordered[ends - 2]
        )
    return found


def scales(ordered: NDArray[np.float64], mechanism: Mechanism) -> NDArray[np.float64]:
    """The scale of the noise on each cluster's sum."""
    count = len(ordered) // mechanism.k
    starts = np.arange(count) * mechanism.k
    ends = np.append(starts[1:], len(ordered))
    if mechanism.method == "dp-um":
        sensitivity = np.full(count, mechanism.width)
    elif mechanism.method == "idp-ls":
        sensitivity = np.maximum(
            mechanism.high - ordered[starts], ordered[ends - 1] - mechanism.low
        )
    else:
        u, u2, u3 = (ordered[starts + i] for i in range(3))
        v, v2, v3 = (ordered[ends - 1 - i] for i in range(3))
        sensitivity = np.maximum((v - u2) + (u3 - u2) + (v - v2), (v2 - u) + (v2 - v3) + (u2 - u))
    found = sensitivity / mechanism.epsilon
    if mechanism.floor:
        found = np.maximum(found, mechanism.floor * sizes(len(ordered), mechanism.k))
    if mechanism.enlarge:
        found = found * max(1.0, _loss(ordered, found, mechanism) / mechanism.epsilon)
    return found


def neighbours(
    ordered: NDArray[np.float64], mechanism: Mechanism
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two worst substitutions: the smallest to the high end, the largest to the low end."""
    up = np.append(ordered[1:], mechanism.high)
    down = np.insert(ordered[:-1], 0, mechanism.low)
    return up, down


def _loss(ordered: NDArray[np.float64], noise: NDArray[np.float64], mechanism: Mechanism) -> float:
    before = sums(ordered, mechanism)
    losses = []
    tiny = 1e-9 * mechanism.width
    for changed in neighbours(ordered, mechanism):
        shift = np.abs(sums(changed, mechanism) - before)
        moved = shift > tiny
        if (moved & (noise <= 0)).any():
            return float("inf")
        losses.append(float(np.sum(shift[moved] / noise[moved])))
    return max(losses)


def exact_loss(ordered: NDArray[np.float64], mechanism: Mechanism) -> float:
    """The epsilon that the ordered centroids spend when the worst record changes.

    Clusters are made anew, the noise stays that of the given table. Methods that mask each
    value by itself have no clusters and spend what they claim.
    """
    if mechanism.method in SINGLE:
        return mechanism.epsilon
    inside = np.clip(ordered, mechanism.low, mechanism.high)
    return _loss(inside, scales(inside, mechanism), mechanism)
