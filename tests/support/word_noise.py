"""The noise of a joint computation in the clear: the oracle that shares are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.secure.engine.interface import WORD_BITS
from sherd.secure.engine.noise_bits import TIE_BITS, thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


class WordNoise:
    """Noise from uniform words below 2^62: what a computation on shares drew of them."""

    def __init__(self, words: Callable[[int, int], Numbers]) -> None:
        self._words = words

    def geometric(self, n: int, rate: Fraction) -> Numbers:
        """Geometric noise of a rate, n draws."""
        limits = np.array(thresholds(rate), np.int64)
        words = self._words(n * limits.size, WORD_BITS).reshape(n, limits.size)
        weights = np.int64(1) << np.arange(limits.size)
        found: Numbers = ((words < limits) * weights).sum(axis=1)
        return found

    def largest(self, groups: Sequence[Numbers], rate: Fraction) -> list[int]:
        """The place of the largest in each group after noise, ties by random bits."""
        n = sum(len(group) for group in groups)
        noise = self.geometric(n, rate)
        ties = self._words(n, TIE_BITS)
        keys = (np.concatenate(groups) + noise << TIE_BITS) + ties
        ends = np.cumsum([len(group) for group in groups])
        return [int(np.argmax(part)) for part in np.split(keys, ends[:-1])]

    def laplace(self, n: int, rate: Fraction) -> Numbers:
        """Discrete Laplace noise of a rate, n draws."""
        both = self.geometric(2 * n, rate)
        return both[:n] - both[n:]
