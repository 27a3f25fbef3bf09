"""How many records a release lets a tuple match, by merging lists of buckets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sherd.methods.compiled import compiled

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Ints, Longs

Floats = NDArray[np.float64]


def index(codes: Ints, size: int, buckets: Longs, n_buckets: int) -> tuple[Longs, Longs, Longs]:
    """For every value its buckets, ascending, and how often: heads, buckets, counts."""
    keys, counts = np.unique(codes.astype(np.int64) * n_buckets + buckets, return_counts=True)
    heads = np.concatenate([[0], np.cumsum(np.bincount(keys // n_buckets, minlength=size))])
    return heads.astype(np.int64), keys % n_buckets, counts.astype(np.int64)


@compiled
def matches(
    tuples: Ints, heads: Longs, spans: Longs, shifts: Longs, buckets: Longs, counts: Longs,
    sizes: Longs,
) -> Floats:  # fmt: skip
    """Σ_B |B| Π_i cnt_{i,B}[t_i]/|B| of every tuple; a value of −1 matches nothing."""
    n, n_columns = tuples.shape
    scores = np.zeros(n, dtype=np.float64)
    begin = np.empty(n_columns, dtype=np.int64)
    end = np.empty(n_columns, dtype=np.int64)
    for i in range(n):
        shortest = 0
        possible = True
        for c in range(n_columns):
            value = tuples[i, c]
            if value < 0:
                possible = False
                break
            begin[c] = shifts[c] + heads[spans[c] + value]
            end[c] = shifts[c] + heads[spans[c] + value + 1]
            if end[c] - begin[c] < end[shortest] - begin[shortest]:
                shortest = c
        if not possible:
            continue
        for place in range(begin[shortest], end[shortest]):
            bucket = buckets[place]
            term = float(counts[place])
            for c in range(n_columns):
                if c == shortest:
                    continue
                at = np.searchsorted(buckets[begin[c] : end[c]], bucket) + begin[c]
                if at == end[c] or buckets[at] != bucket:
                    term = 0.0
                    break
                term *= counts[at] / sizes[bucket]
            scores[i] += term
    return scores
