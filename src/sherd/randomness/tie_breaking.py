"""Random bits that put equal values into an order, as many as there are rows.

No promise rests on them, so that they may be quick: Philox, under a key of 128 bits and from a
counter of 256 that come from the source of the run. What matters is that nobody can tell from a
release in which order equal values were ranked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDTH = 16
"""Random bits for a row."""

SEED_WORDS = 6


class TieBits:
    """A stream of random bits, the same however it is cut into pieces."""

    def __init__(self, seed: NDArray[np.uint64], part: int = 0) -> None:
        """``seed`` is ``SEED_WORDS`` words of a source; ``part`` gives streams apart."""
        counter = seed[2:].copy()
        counter[-1] ^= np.uint64(part)
        self._stream = np.random.Philox(key=seed[:2], counter=counter)
        self._left: NDArray[np.uint16] = np.empty(0, np.uint16)

    def take(self, count: int) -> NDArray[np.uint16]:
        """The bits of the next rows."""
        lacking = max(0, count - len(self._left))
        fresh = self._stream.random_raw((lacking + 3) // 4).view(np.uint16)
        held = np.concatenate([self._left, fresh]) if len(self._left) else fresh
        self._left = held[count:].copy()
        return held[:count]


def tie_width(steps: int, place_bits: int) -> int:
    """How many random bits fit into a word beside a position and a row's place.

    >>> tie_width(100, 20), tie_width(2**36, 28)
    (16, 0)
    """
    return max(0, min(WIDTH, 64 - steps.bit_length() - place_bits))
