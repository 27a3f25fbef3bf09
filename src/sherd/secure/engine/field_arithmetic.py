"""Arithmetic on many elements of a prime field at once, faster than on Python's numbers one by one.

Elements are whole numbers from 0 to p − 1 of any length, in numpy arrays of Python's numbers, as
MPyC has them. Products are computed by parts of a few bits in floating point, where every number
that occurs is below 2^53 and therefore exact.

Notation: p the field's prime, m the number of parties, t how many of them learn nothing together.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

EXACT_BITS = 53
"""Whole numbers of so many bits are exact in floating point, and so are their sums below it."""


def matrix_product(a: Any, b: Any, modulus: int) -> Any:
    """The product of two matrices modulo a prime.

    >>> p = 2**61 - 1
    >>> a = np.array([[p - 1, 2], [3, 4]], object)
    >>> matrix_product(a, a, p).tolist() == (a @ a % p).tolist()
    True
    """
    inner = max(1, a.shape[1])
    width = (EXACT_BITS - inner.bit_length()) // 2
    parts = -(-modulus.bit_length() // width)
    left, right = _parts(a, width, parts), _parts(b, width, parts)
    total = np.zeros((a.shape[0], b.shape[1]), object)
    for place in range(2 * parts - 1):
        pairs = range(max(0, place - parts + 1), min(place, parts - 1) + 1)
        for i in pairs:
            # In one thread: several parties on one machine would only wait for each other's.
            exact = np.einsum("ij,jk->ik", left[i], right[place - i]).astype(np.int64)
            total += exact.astype(object) << (width * place)
    return total % modulus


def _parts(values: Any, width: int, parts: int) -> list[Any]:
    """Numbers cut into parts of so many bits, the lowest first."""
    length = -(-width * parts // 8)
    raw = b"".join([int(one).to_bytes(length, "little") for one in values.ravel()])
    octets = np.frombuffer(raw, np.uint8).reshape(-1, length)
    padded = np.zeros((len(octets), length + 8), np.uint8)
    padded[:, :length] = octets
    keep = np.uint64(2**width - 1)
    limbs = []
    for part in range(parts):
        start, shift = divmod(part * width, 8)
        words = np.ascontiguousarray(padded[:, start : start + 8]).view("<u8")[:, 0]
        limbs.append(((words >> np.uint64(shift)) & keep).astype(np.float64).reshape(values.shape))
    return limbs


def random_below(bound: int, n: int) -> Any:
    """Uniform numbers below a bound, n of them, from the operating system.

    >>> drawn = random_below(5, 1000)
    >>> len(drawn), sorted(set(drawn.tolist()))
    (1000, [0, 1, 2, 3, 4])
    """
    bits = (bound - 1).bit_length()
    length, keep = -(-bits // 8), 2**bits - 1
    numbers: list[int] = []
    while len(numbers) < n:
        # At least half of all draws are below the bound.
        wanted = n - len(numbers)
        raw = os.urandom(length * wanted)
        drawn = (
            int.from_bytes(raw[at : at + length], "little") & keep
            for at in range(0, len(raw), length)
        )
        numbers.extend(one for one in drawn if one < bound)
    return np.array([*numbers, None], object)[:-1]


def random_split(field: Any, secrets: Any, t: int, m: int) -> Any:
    """Shamir shares of secrets, one row a party: random polynomials of degree t, at 1 … m.

    It takes the place of MPyC's own ``np_random_split``, and makes the same of the same numbers.
    """
    values = secrets.value if isinstance(secrets, field.array) else secrets
    n = len(values)
    coefficients = random_below(field.order, t * n).reshape(t, n)
    powers = np.array([[place**power for power in range(t + 1)] for place in range(1, m + 1)], "O")
    return (powers @ np.concatenate((values.reshape(1, n), coefficients))) % field.modulus
