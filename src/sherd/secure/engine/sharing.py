"""Additive shares modulo 2^64: all but one are uniform words, the last is what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Words(Protocol):
    """Where a party's uniform words come from."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next n words."""


def split(
    values: NDArray[np.int64], parts: int, randomness: Words
) -> tuple[NDArray[np.uint64], ...]:
    """Shares whose sum modulo 2^64 is the value; all but the last are uniform words.

    >>> from sherd.randomness import Randomness
    >>> first, second = split(np.array([-5, 7]), 2, Randomness.seeded(1))
    >>> (first + second).view(np.int64)
    array([-5,  7])
    """
    masks = [randomness.words(values.size).reshape(values.shape) for _ in range(parts - 1)]
    last = np.ascontiguousarray(values, np.int64).view(np.uint64)
    return (*masks, last - sum(masks, np.zeros(values.shape, np.uint64)))
