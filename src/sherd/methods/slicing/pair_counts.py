"""How often two attributes' codes occur together, counted in one pass over the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Ints, Longs


@compiled
def count_pairs(one: Ints, d1: int, two: Ints, d2: int) -> Longs:
    """The table of counts, a row for every code of the first."""
    counts = np.zeros((d1, d2), dtype=np.int64)
    for i in range(one.size):
        counts[one[i], two[i]] += 1
    return counts
