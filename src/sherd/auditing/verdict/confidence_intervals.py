"""Confidence intervals: exact ones for counts, percentiles for everything else."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def clopper_pearson(hits: float, trials: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """The exact two-sided interval of a proportion; never covers with less than 1 − alpha.

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    if trials <= 0:
        return 0.0, 1.0
    return lower_bound(hits, trials, alpha=alpha / 2), upper_bound(hits, trials, alpha=alpha / 2)


def lower_bound(hits: float, trials: int, *, alpha: float) -> float:
    """The exact one-sided lower bound of a proportion (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    return 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, alpha))


def upper_bound(hits: float, trials: int, *, alpha: float) -> float:
    """The exact one-sided upper bound of a proportion."""
    from scipy.special import betaincinv

    return 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha))


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The normal 95 % interval of a mean."""
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    centre = float(np.mean(values))
    return centre - 1.96 * spread, centre + 1.96 * spread


def median_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of a median by order statistics: no assumption on the distribution.

    >>> median_interval(np.arange(100.0))
    (39.0, 60.0)
    """
    from scipy.special import bdtrik

    ordered = np.sort(values)
    n = len(ordered)
    # The largest r with P(Binomial(n, 1/2) < r) at most 2.5 %.
    r = int(np.nan_to_num(np.ceil(bdtrik(0.025, n, 0.5))))
    return float(ordered[max(0, r - 1)]), float(ordered[min(n - 1, n - r)])


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing their mean rank.

    >>> ranks(np.array([10.0, 30.0, 10.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    ordered = np.sort(values)
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    return (first + last + 1) / 2
