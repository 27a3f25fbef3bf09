"""Uniform permutations by sorting lazily refined random keys.

Independent uniform keys with infinitely many bits are distinct with probability one and
come in every order equally often. A key starts as the high bits of a word, beside the row
number in its low bits, so that one sort of words orders the rows; rows whose keys agree
so far get further bits, and only those.

``TieBits`` are the random bits by which equal values are ranked. No promise rests on them, so
they may be quick: they come from Philox, whose key of 128 bits and counter of 256 bits are drawn
from the source of the run. All that matters is that nobody can tell from a release in which order
equal values were ranked.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Source = Callable[[int], NDArray[np.uint64]]


def permutation(source: Source, n: int) -> NDArray[np.int64]:
    """A uniform permutation of 0 … n − 1."""
    order, keys = _sorted_with_rows(source(n), np.uint64(max(n - 1, 0).bit_length()))
    _settle_ties(source, order, keys)
    return order


def _sorted_with_rows(
    packed: NDArray[np.uint64], bits: np.uint64
) -> tuple[NDArray[np.int64], NDArray[np.uint64]]:
    """Row numbers in the order of their words' high bits, and these, in place of the low ones."""
    packed >>= bits
    packed <<= bits
    packed |= np.arange(packed.size, dtype=np.uint64)
    packed.sort()
    keys = packed >> bits
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    return packed.view(np.int64), keys


def _settle_ties(source: Source, order: NDArray[np.int64], keys: NDArray[np.uint64]) -> None:
    """Order rows whose keys agree by further bits."""
    same = keys[1:] == keys[:-1]
    if same.any():
        tied = np.zeros(order.size, dtype=np.bool_)
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        _settle(source, order, keys[places], places)


_LEAST_KEY = 16
"""The fewest random bits of a row's first key; ties among them are settled by further bits."""

BLOCK = 1 << 17
"""Rows a thread works on at once: their keys and places stay in its cache."""


def shuffle(source: Source, n: int, threads: int) -> NDArray[np.uint32]:
    """A uniform permutation of fewer than 2**32 rows, on several threads.

    A key is 32 bits at first, half of what ``permutation`` draws, since drawing is the slow
    part; among a million rows about a hundred pairs then need more.
    """
    bits = np.uint64(max(n - 1, 0).bit_length())
    keys = source((n + 1) // 2).view(np.uint32)[:n]
    order = np.empty(n, np.uint32)
    tied: list[NDArray[np.int64]] = []
    packed = np.empty(n, np.uint64)
    low = (np.uint64(1) << bits) - np.uint64(1)

    def pack(start: int) -> None:
        part = packed[start : start + BLOCK]
        np.left_shift(keys[start : start + BLOCK], bits, out=part, dtype=np.uint64)
        part |= np.arange(start, start + len(part), dtype=np.uint64)

    def unpack(start: int) -> None:
        part = packed[start : start + BLOCK]
        ranks = packed[start : start + BLOCK + 1] >> bits
        same = ranks[1:] == ranks[:-1]
        if same.any():
            tied.append(np.flatnonzero(same) + start)
        np.bitwise_and(
            part, low, out=order[start : start + len(part)], dtype=np.uint64, casting="unsafe"
        )

    with ThreadPoolExecutor(max_workers=max(1, threads)) as pool:
        list(pool.map(pack, range(0, n, BLOCK)))
        parts = _parted(packed, threads if n > BLOCK else 1)
        list(pool.map(np.ndarray.sort, parts))
        list(pool.map(unpack, range(0, n, BLOCK)))
    if tied:
        first = np.concatenate(tied)
        doubtful = np.union1d(first, first + 1)
        _settle(source, order, packed[doubtful] >> bits, doubtful)
    return order


def _parted(words: NDArray[np.uint64], parts: int) -> list[NDArray[np.uint64]]:
    """Move smaller words before larger ones; the parts that remain to be sorted by themselves.

    >>> [sorted(part.tolist()) for part in _parted(np.array([5, 1, 4, 2], np.uint64), 2)]
    [[1, 2], [4, 5]]
    """
    cuts = [len(words) * part // parts for part in range(1, parts)]
    if cuts:
        words.partition(cuts)
    return [words[a:b] for a, b in itertools.pairwise([0, *cuts, len(words)])]


def inverse(order: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The permutation that undoes another.

    >>> inverse(np.array([2, 0, 1], np.uint32)).tolist()
    [1, 2, 0]
    """
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    return places


def _settle(
    source: Source,
    order: NDArray[np.int64] | NDArray[np.uint32],
    keys: NDArray[np.uint64],
    places: NDArray[np.int64],
) -> None:
    """Order the rows at ``places``, whose keys a neighbour has as well, by further bits."""
    run = np.zeros(places.size, dtype=np.int64)
    run[1:] = np.cumsum(keys[1:] != keys[:-1])
    while True:
        more = source(places.size)
        by_key = np.lexsort((more, run))
        if not ((np.diff(run[by_key]) == 0) & (np.diff(more[by_key]) == 0)).any():
            order[places] = order[places][by_key]
            return


def permutation_within(source: Source, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """A permutation that moves rows inside their group only, each group's uniform.

    Rows are sorted by group, random key and row number, all in one word: keys order the rows of a
    group as in ``permutation``, independently of the other groups. Where too few bits are left for
    the keys, a uniform permutation of all rows is read group by group.
    """
    n = groups.size
    bits = max(n - 1, 0).bit_length()
    result = np.empty(n, dtype=np.int64)
    if n and (groups.min() < 0 or int(groups.max()).bit_length() + bits + _LEAST_KEY > 64):
        shuffled = permutation(source, n)
        result[_grouped(groups)] = shuffled[_grouped(groups[shuffled])]
        return result
    above = np.uint64(64 - max(int(groups.max(initial=0)).bit_length(), 1))
    packed = source(n)
    packed >>= np.uint64(64) - above
    packed |= groups.astype(np.uint64) << above
    order, keys = _sorted_with_rows(packed, np.uint64(bits))
    _settle_ties(source, order, keys)
    result[_grouped(groups)] = order
    return result


def _grouped(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows ordered by group, stable: one sort of words where group and row fit."""
    n = groups.size
    bits = max(n - 1, 0).bit_length()
    if n and groups.min() >= 0 and int(groups.max()) < 2**16:
        return np.argsort(groups.astype(np.uint16), kind="stable")  # by counting, not comparing
    if n and (groups.min() < 0 or int(groups.max()) >> (63 - bits)):
        return np.argsort(groups, kind="stable")
    packed = (groups << bits) | np.arange(n)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


WIDTH = 16
"""Random bits for a row."""

SEED_WORDS = 6


class TieBits:
    """A stream of random bits that does not depend on the pieces in which it is taken."""

    def __init__(self, seed: NDArray[np.uint64], part: int = 0) -> None:
        """``seed`` is ``SEED_WORDS`` words of a source; every ``part`` has a stream of its own."""
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
