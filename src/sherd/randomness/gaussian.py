"""Exact draws of discrete Gaussian noise: P(x) ∝ exp(−x²/(2σ²)) on the whole numbers.

Canonne, Kamath and Steinke (2020), Algorithm 3, with one change: they propose from a discrete
Laplace of scale floor(σ) + 1, this module from one of scale σ itself, which is a fraction p/q.
A proposal Y is accepted with probability exp(−(|Y| − σ)²/(2σ²)), and

    exp(−|Y|/σ) · exp(−(|Y| − σ)²/(2σ²)) = exp(−Y²/(2σ²)) · exp(−1/2),

so what is accepted has the wanted distribution for any σ. The exponent of the acceptance is
(|Y|·q − p)²/(2p²): whole numbers throughout, and the Bernoulli trial is exact.

Limits: p ≤ 2^23, so that nothing wraps: |Y| < 128·σ gives |Y|·q − p < 2^30. A proposal is cut
off at 128 scales (see ``exponential``), where the density of the Gaussian is below exp(−8000).

Notation: p, q numerator and denominator of the standard deviation σ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import PlanError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.randomness.source import Randomness

MOST_NUMERATOR = 2**23
"""The largest numerator of a standard deviation in lowest terms."""


def discrete_gaussian(randomness: Randomness, deviation: Fraction, n: int) -> NDArray[np.int64]:
    """Draw n times with the parameter σ = ``deviation``.

    >>> from fractions import Fraction
    >>> from sherd.randomness import Randomness
    >>> len(discrete_gaussian(Randomness.seeded(1), Fraction(7, 2), 5))
    5
    """
    p, q = deviation.numerator, deviation.denominator
    if not 0 < p <= MOST_NUMERATOR:
        raise PlanError(
            "the standard deviation of the noise is not valid",
            must=f"a fraction above 0 with numerator at most {MOST_NUMERATOR}",
            do="round it up to such a fraction",
        )
    drawn = np.empty(n, np.int64)
    pending = np.arange(n)
    while pending.size:
        proposed = randomness.discrete_laplace(p, q, pending.size, engine="vector")
        distance = np.abs(proposed) * q - p
        accepted = randomness.bernoulli_exp(distance * distance, 2 * p * p)
        drawn[pending[accepted]] = proposed[accepted]
        pending = pending[~accepted]
    return drawn
