"""Discrete Laplace noise from OpenDP's sampler, for few draws.

OpenDP's scale is a float, and its sampler is exact for the rational number that float is.
A wanted scale that no float equals is rounded up to the next one, so the noise is never
smaller than declared, and larger by a factor of at most 1 + 2^−52.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def imported() -> bool:
    """Whether OpenDP has been imported already, so that using it costs no start-up time."""
    return "opendp.measurements" in sys.modules


def float_from_above(scale: Fraction) -> float:
    """The smallest float that is not below the scale.

    >>> float_from_above(Fraction(1, 2)), float_from_above(Fraction(1, 10)) >= Fraction(1, 10)
    (0.5, True)
    """
    near = float(scale)
    return near if Fraction(near) >= scale else math.nextafter(near, math.inf)


def discrete_laplace(scale: Fraction, n: int) -> NDArray[np.int64]:
    """Draw n times at one scale from OpenDP; a draw beyond 64 bits is cut off there by OpenDP."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = vector_domain(atom_domain(T="i64"), size=n), l1_distance(T="i64")
    measurement = make_laplace(*space, scale=float_from_above(scale))
    return np.array(measurement([0] * n), dtype=np.int64)
