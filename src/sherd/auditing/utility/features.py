"""Columns as a matrix for a learner: numbers as they are, labels by rank, gaps as NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Columns


def matrix(
    columns: Columns, names: Sequence[str], rows: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """The rows of some columns, in single precision: trees compare, they do not add."""
    n = len(columns[names[0]]) if rows is None else len(rows)
    found = np.empty((n, len(names)), np.float32)
    for i, name in enumerate(names):
        found[:, i] = columns[name] if rows is None else columns[name][rows]
    return found


def pick(rng: np.random.Generator, n: int, most: int) -> NDArray[np.int64]:
    """At most so many rows of n, at random, without repetition."""
    if n <= most:
        return np.arange(n)
    return np.sort(rng.choice(n, most, replace=False))
