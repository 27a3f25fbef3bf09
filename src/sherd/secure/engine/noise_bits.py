"""Geometric and discrete Laplace noise from uniform words, bit by bit.

A geometric variable, P(x) ∝ exp(−λx) on 0 … 2^B − 1, has independent bits: bit b is 1 with
probability 1/(1 + exp(λ·2^b)). So noise that nobody knows needs jointly random words and
comparisons with public thresholds only. Discrete Laplace noise is the difference of two.

Distance from the ideal: what lies beyond 2^B has mass exp(−λ·2^B) < exp(−``REACH``), and each
threshold is rounded to 2^−62; so one draw is within exp(−REACH) + B·2^−62 of the ideal in total
variation, and m draws within m times that, η. A mechanism that is epsilon-differentially private
with ideal noise is (epsilon, (1 + e^epsilon)·η)-differentially private with this.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.secure.engine.interface import WORD_BITS

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]

REACH = 45
"""Noise reaches to this many times its scale: what is cut off has mass below 3·10^−20."""

TIE_BITS = 18
"""Random bits that break ties; two candidates out of m agree in them with chance m²/2^19."""


def bits_needed(rate: Fraction) -> int:
    """The number B of bits of geometric noise of a rate.

    >>> from fractions import Fraction
    >>> bits_needed(Fraction(1, 4)), bits_needed(Fraction(100))
    (8, 1)
    """
    return max(1, math.ceil(math.log2(REACH / float(rate))))


@cache
def thresholds(rate: Fraction) -> tuple[int, ...]:
    """floor(2^62 / (1 + exp(rate·2^b))) for b = 0 … B − 1."""
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(rate.numerator) / Decimal(rate.denominator)
        return tuple(
            int(Decimal(2**WORD_BITS) / (1 + (exact * 2**b).exp()))
            for b in range(bits_needed(rate))
        )


def distance(draws: int, rate: Fraction) -> float:
    """How far that many geometric draws are from ideal ones, in total variation, at most."""
    return draws * (math.exp(-REACH) + bits_needed(rate) * 2.0**-WORD_BITS)


def delta(epsilon: float, distance: float) -> float:
    """The δ that noise at a distance from the ideal costs."""
    # Beyond 700 it is out of the range of floats, and long out of that of promises.
    return (1 + math.exp(min(epsilon, 700.0))) * distance


def shared_geometric(engine: JointEngine, n: int, rate: Fraction) -> Any:
    """Geometric noise that nobody knows, n draws as a secret: one comparison a bit."""
    limits = np.array(thresholds(rate), np.int64)
    words = engine.random(n * limits.size)
    below = engine.less(words, np.tile(limits, n))
    weights = np.tile(np.int64(1) << np.arange(limits.size), n)
    return engine.sum(engine.reshape(engine.scale(below, weights), (n, limits.size)))
