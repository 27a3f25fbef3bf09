"""Products of 64-bit words to their full 128 bits, which numpy does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HALF = np.uint64(32)
_LOW = np.uint64(2**32 - 1)


def multiply(
    a: NDArray[np.uint64], b: NDArray[np.uint64] | np.uint64
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The high and the low word of a·b.

    >>> high, low = multiply(np.array([2**63 + 1], dtype=np.uint64), np.uint64(6))
    >>> int(high[0]), int(low[0])
    (3, 6)
    """
    a_high, a_low = a >> _HALF, a & _LOW
    b_high, b_low = b >> _HALF, b & _LOW
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)  # at most (2^32-1)^2 + 2^32-1: no carry is lost
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW)
