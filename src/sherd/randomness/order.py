"""Uniform permutations by sorting lazily refined random keys.

Independent uniform keys with infinitely many bits are distinct with probability one and
come in every order equally often. A key starts as the high bits of a word, beside the row
number in its low bits, so that one sort of words orders the rows; rows whose keys agree
so far get further bits, and only those.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Source = Callable[[int], NDArray[np.uint64]]


def permutation(source: Source, n: int) -> NDArray[np.int64]:
    """A uniform permutation of 0 … n − 1."""
    bits = np.uint64(max(n - 1, 0).bit_length())
    packed = source(n)
    packed >>= bits
    packed <<= bits
    packed |= np.arange(n, dtype=np.uint64)
    packed.sort()
    keys = packed >> bits
    packed &= (np.uint64(1) << bits) - np.uint64(1)
    order = packed.view(np.int64)
    tied = np.zeros(n, dtype=np.bool_)
    same = keys[1:] == keys[:-1]
    if same.any():
        tied[1:] |= same
        tied[:-1] |= same
        places = np.flatnonzero(tied)
        _settle(source, order, keys[places], places)
    return order


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
        packed.sort()
        list(pool.map(unpack, range(0, n, BLOCK)))
    if tied:
        first = np.concatenate(tied)
        doubtful = np.union1d(first, first + 1)
        _settle(source, order, packed[doubtful] >> bits, doubtful)
    return order


def inverse(order: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The permutation that undoes another.

    >>> inverse(np.array([2, 0, 1], np.uint32)).tolist()
    [1, 2, 0]
    """
    found = np.empty(len(order), np.uint32)
    found[order] = np.arange(len(order), dtype=np.uint32)
    return found


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

    A uniform permutation of all rows, read group by group, puts the rows of each group in
    a uniform order, independently of the other groups.
    """
    shuffled = permutation(source, groups.size)
    by_group = _grouped(groups)
    result = np.empty(groups.size, dtype=np.int64)
    result[by_group] = shuffled[_grouped(groups[shuffled])]
    return result


def _grouped(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows ordered by group, stable: one sort of words where group and row fit."""
    n = groups.size
    bits = max(n - 1, 0).bit_length()
    if n and (groups.min() < 0 or int(groups.max()) >> (63 - bits)):
        return np.argsort(groups, kind="stable")
    packed = (groups << bits) | np.arange(n)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed
