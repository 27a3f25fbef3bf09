"""Intervals for sums of noisy counts: what is known of a number of records, and how well.

A measured histogram is y = true counts + noise, each cell's drawn by itself. For weights w of
the cells, Σ w·y estimates Σ w·(true counts) without bias. The number of records n is public, so
w may be shifted by its mean: mean(w)·n is exact and only Σ (w − mean(w))·y is noisy. Several
measurements of the same sum are averaged by the inverse of their variance.

An interval of 95 % is the estimate ± z deviations. z is the normal quantile for Gaussian noise;
for Laplace noise that of one draw, ln 20/√2, which no sum of draws exceeds (a sum is nearer to
the normal; checked over mixtures by a test). Noise on whole numbers needs half a step more; noise
of so small a scale that these laws no longer describe it gets Chebyshev's 1/√0.05.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import Noise

    Weights = NDArray[np.float64]

CONFIDENCE = 0.95
"""How often an interval covers the truth, at least."""

QUANTILES = {"gaussian": 1.959963984540054, "laplace": math.log(20) / math.sqrt(2)}
"""Deviations that noise exceeds, on either side together, one time in twenty."""

CHEBYSHEV = 1 / math.sqrt(1 - CONFIDENCE)
LEAST_SCALE = 2
"""The scale below which discrete noise is not told from its continuous law."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighted:
    """Noisy counts, their noise, and the weights of a sum over them."""

    counts: NDArray[np.int64]
    noise: Noise
    weights: Weights


@dataclass(frozen=True, kw_only=True)
class SumEstimate:
    """A sum over records: an estimate without bias, its deviation, and half of its interval."""

    value: float
    deviation: float
    half: float


def estimate(parts: Sequence[Weighted], rows: int) -> SumEstimate:
    """The sum that all parts measure, from all of them together.

    >>> from fractions import Fraction
    >>> from sherd.methods.graphical.measuring import Noise
    >>> noise = Noise(kind="gaussian", scale=Fraction(10))
    >>> counts = Weighted(counts=np.array([40, 70]), noise=noise, weights=np.array([1.0, 0.0]))
    >>> found = estimate([counts], 100)
    >>> found.value, round(found.deviation, 2), round(found.half, 2)
    (35.0, 7.07, 14.11)
    """
    found = []
    for part in parts:
        mean = float(part.weights.mean())
        apart = (part.weights - mean).ravel()
        variance = part.noise.variance * float(apart @ apart)
        value = mean * rows + float(apart @ part.counts.ravel())
        found.append((value, variance, float(np.abs(apart).max()), part.noise))
        if variance == 0:
            return SumEstimate(value=mean * rows, deviation=0.0, half=0.0)
    total = sum(1 / variance for _, variance, _, _ in found)
    shares = [1 / (variance * total) for _, variance, _, _ in found]
    deviation = 1 / math.sqrt(total)
    small = any(noise.scale < LEAST_SCALE for _, _, _, noise in found)
    step = max(share * most for share, (_, _, most, _) in zip(shares, found, strict=True))
    quantile = CHEBYSHEV if small else QUANTILES[found[0][3].kind]
    return SumEstimate(
        value=sum(share * value for share, (value, *_) in zip(shares, found, strict=True)),
        deviation=deviation,
        half=quantile * deviation + (0 if small else step / 2),
    )
