"""The strongest test of noisy counts: how much likelier they are with one table than another.

By Neyman and Pearson no test of two neighbouring tables beats the ratio of their likelihoods.
For counts with known noise it is known exactly, so the attack loses nothing: of Laplace noise it
reaches the promised ε itself, of Gaussian noise the promised ρ. It is for whoever knows both
tables; views of insiders in joint releases are the same counts with the noise they know
taken off and the scale of the rest.

Notation: y counts, c and c′ the true ones of the two tables, b or σ the scale of the noise; p and q
how often an event happens with each table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from sherd.auditing.verdict.measure import lower_bound, upper_bound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class NoisyView:
    """Counts as somebody sees them, the true ones of two tables, and the noise on each count."""

    counts: NDArray[np.int64]
    one: NDArray[np.int64]
    other: NDArray[np.int64]
    kind: Literal["laplace", "gaussian"]
    scale: float


def log_ratio(views: Iterable[NoisyView]) -> float:
    """How much likelier, in natural logarithms, views are with the one table than with the other.

    >>> view = NoisyView(counts=np.array([9]), one=np.array([5]), other=np.array([4]),
    ...                  kind="laplace", scale=2.0)
    >>> log_ratio([view, view])
    1.0
    """
    total = 0.0
    for view in views:
        power = 1 if view.kind == "laplace" else 2
        near, far = (np.abs(view.counts - true) ** power for true in (view.one, view.other))
        total += float((far - near).sum()) / (power * view.scale**power)
    return total


def proved_rho(
    one: NDArray[np.float64], other: NDArray[np.float64], *, alpha: float = 0.05
) -> float:
    """The least ρ that ratios of runs on two tables leave possible, wrongly at a rate of alpha.

    The event is fixed beforehand: the ratio is above 0. Gaussian noise of ρ in all lets no test
    do better than telling two normal laws apart whose means are μ = √(2ρ) deviations apart, so
    Φ⁻¹(p) − Φ⁻¹(q) ≤ μ. p is bounded from below and q from above (Clopper–Pearson), each at half
    the level.
    """
    from scipy.special import ndtri

    p = lower_bound(int((one > 0).sum()), len(one), alpha=alpha / 2)
    q = upper_bound(int((other > 0).sum()), len(other), alpha=alpha / 2)
    apart = max(0.0, float(ndtri(p) - ndtri(q)))
    return apart**2 / 2


def proved_epsilon(
    one: NDArray[np.float64],
    other: NDArray[np.float64],
    *,
    least: float,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> float:
    """The least ε that ratios of runs on two tables leave possible, wrongly at a rate of alpha.

    The event, a ratio of at least ``least``, must be fixed before the runs are seen. With a
    ``delta`` it is the ε of (ε, δ).
    """
    p = lower_bound(int((one >= least).sum()), len(one), alpha=alpha / 2)
    q = upper_bound(int((other >= least).sum()), len(other), alpha=alpha / 2)
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0
