"""A sliced table from its parts: one permutation per column and bucket, then a shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sherd.methods.slicing.column_layout import BUCKET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.randomness import Randomness


def renamed(buckets: NDArray[np.int64], randomness: Randomness) -> NDArray[np.int64]:
    """Bucket numbers from 1 that say nothing about how the buckets were made."""
    n_buckets = int(buckets.max()) + 1 if len(buckets) else 0
    return (randomness.permutation(n_buckets) + 1)[buckets]


def sliced(
    columns: Sequence[Mapping[str, pa.Array | pa.ChunkedArray]],
    buckets: NDArray[np.int64],
    randomness: Randomness,
    *,
    shuffle: bool,
) -> pa.Table:
    """The released table: ``columns`` hold every column's fields, ``buckets`` their rows'."""
    names = renamed(buckets, randomness)
    rows = randomness.permutation(len(buckets))
    if not shuffle:
        rows = np.argsort(names, kind="stable")
    fields: dict[str, pa.Array | pa.ChunkedArray] = {BUCKET: pa.array(names[rows])}
    for column in columns:
        moved = pa.array(randomness.permutation_within(buckets)[rows])
        for field, cells in column.items():
            fields[field] = cells.take(moved)
    return pa.table(fields)
