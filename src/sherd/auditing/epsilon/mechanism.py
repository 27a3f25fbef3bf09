"""The ranking methods as the papers define them, written independently: sums, scales, exact losses.

Nothing here is shared with the methods themselves, so that a slip in one shows in the other:
losses are computed by recomputing the clusters of the changed table and comparing sums, not
by the formulas the methods use. Notation: n sorted values, p = floor(n/k) clusters, the last
takes the remainder; R = high − low; b_j the scale of the Laplace noise on cluster j's sum.

>>> halves = np.array([0, 0, 0, .5, .5, .5])
>>> local = {"centre": "mean", "reach": "local"}
>>> exact_loss(halves, Mechanism(**local, k=3, epsilon=1.0, low=0.0, high=1.0))
1.5
>>> own = {"centre": "trimmed", "reach": "cluster"}
>>> nine = np.arange(1.0, 10)
>>> round(exact_loss(nine, Mechanism(**own, k=3, epsilon=1.0, low=0.0, high=10.0)), 9)
3.0
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.guarantees.centroid_loss import loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

CENTRES = ("value", "mean", "trimmed")
REACHES = ("domain", "local", "cluster")
"""What a method can declare of its masking (see ``sherd.release.traits``)."""


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """One attribute's ranking mechanism: masking, cluster size, share of epsilon, domain.

    ``centre`` and ``reach`` are what the method declares of its masking. ``floor`` is the least
    scale on a centroid; ``enlarge`` multiplies all scales until the exact loss is at most
    epsilon, as the promise ``centroids`` does. ``step`` is the grid, 0 where it is not known.
    """

    centre: str
    reach: str
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
        return not self.single and self.k > 1

    @property
    def single(self) -> bool:
        """Whether each value is masked by itself."""
        return self.centre == "value"

    @property
    def width(self) -> float:
        """The width R of the domain."""
        return self.high - self.low

    @property
    def steps(self) -> int:
        """The width of the domain in steps of the grid."""
        return round(self.width / self.step)

    def in_steps(self) -> Mechanism:
        """The same on positions, which are steps of the grid above the lower bound."""
        floor, high = self.floor / self.step, float(self.steps)
        return replace(self, low=0.0, high=high, floor=floor, step=1.0)

    def positions(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values as positions, clamped to the domain as a method clamps them."""
        steps: NDArray[np.float64] = np.rint((values - self.low) / self.step)
        return np.clip(steps, 0, self.steps)


def sizes(n: int, k: int) -> NDArray[np.int64]:
    """The number of records in each cluster."""
    counts = np.full(n // k, k, np.int64)
    counts[-1] += n - k * len(counts)
    return counts


def sums(ordered: NDArray[np.float64], mechanism: Mechanism) -> NDArray[np.float64]:
    """The sum of each cluster; trimmed where that is declared."""
    starts = np.arange(len(ordered) // mechanism.k) * mechanism.k
    totals = np.add.reduceat(ordered, starts)
    if mechanism.centre == "trimmed":
        ends = np.append(starts[1:], len(ordered))
        totals = (
            totals - ordered[starts] + ordered[starts + 1] - ordered[ends - 1] + ordered[ends - 2]
        )
    return totals


def scales(ordered: NDArray[np.float64], mechanism: Mechanism) -> NDArray[np.float64]:
    """The scale of the noise on each cluster's sum."""
    count = len(ordered) // mechanism.k
    starts = np.arange(count) * mechanism.k
    ends = np.append(starts[1:], len(ordered))
    if mechanism.reach == "domain":
        sensitivity = np.full(count, mechanism.width)
    elif mechanism.reach == "local":
        sensitivity = np.maximum(
            mechanism.high - ordered[starts], ordered[ends - 1] - mechanism.low
        )
    else:
        u, u2, u3 = (ordered[starts + i] for i in range(3))
        v, v2, v3 = (ordered[ends - 1 - i] for i in range(3))
        sensitivity = np.maximum((v - u2) + (u3 - u2) + (v - v2), (v2 - u) + (v2 - v3) + (u2 - u))
    noise = sensitivity / mechanism.epsilon
    if mechanism.floor:
        noise = np.maximum(noise, mechanism.floor * sizes(len(ordered), mechanism.k))
    if mechanism.enlarge:
        noise = noise * max(1.0, _loss(ordered, noise, mechanism) / mechanism.epsilon)
    return noise


def neighbours(
    ordered: NDArray[np.float64], mechanism: Mechanism
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two worst substitutions: the smallest to the high end, the largest to the low end."""
    up = np.append(ordered[1:], mechanism.high)
    down = np.insert(ordered[:-1], 0, mechanism.low)
    return up, down


def _loss(ordered: NDArray[np.float64], noise: NDArray[np.float64], mechanism: Mechanism) -> float:
    before = sums(ordered, mechanism)
    # On a grid every shift is whole; without one, what is less than rounding is none.
    least = 0.5 if mechanism.step == 1 else 1e-9 * mechanism.width
    shifts = [np.abs(sums(c, mechanism) - before) for c in neighbours(ordered, mechanism)]
    return loss([np.where(shift > least, shift, 0.0) for shift in shifts], noise)


def exact_loss(ordered: NDArray[np.float64], mechanism: Mechanism) -> float:
    """The epsilon that the ordered centroids spend when the worst record changes.

    Clusters are recomputed, the noise stays that of the given table. Methods that mask each
    value by itself have no clusters and spend what they claim. What is published as it is has no
    loss that an epsilon could bound.
    """
    if mechanism.single:
        return mechanism.epsilon
    if mechanism.step:
        ordered, mechanism = mechanism.positions(ordered), mechanism.in_steps()
    inside = np.clip(ordered, mechanism.low, mechanism.high)
    noise = scales(inside, mechanism)
    if not noise.any():
        return float("inf")  # published as it is: no noise, no epsilon
    return _loss(inside, noise, mechanism)
