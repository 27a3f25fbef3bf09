"""Columns as numbers: one code for each combination of values, one position for each value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.tables.schema import Attribute

    Ints = npt.NDArray[np.int64]


def combined(table: pa.Table, attributes: Sequence[str]) -> npt.NDArray[np.int32]:
    """One code for every combination of values that occurs; a missing value is one too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total: Ints | None = None
    for name in attributes:
        column = table.column(name).combine_chunks()
        if not pa.types.is_dictionary(column.type):
            column = pc.dictionary_encode(column)
        indices = pc.fill_null(column.indices.cast(pa.int64()), len(column.dictionary))
        codes = indices.to_numpy(zero_copy_only=False)
        if total is None:
            total = codes
            continue
        total = _compact(total * (len(column.dictionary) + 1) + codes)
    assert total is not None, "an aspect has at least one attribute"
    return np.ascontiguousarray(total, dtype=np.int32)


def _compact(codes: Ints) -> Ints:
    """The same codes without gaps."""
    import pyarrow as pa
    import pyarrow.compute as pc

    room = int(codes.max(initial=0)) + 1
    if room > 4 * len(codes) + 1024:  # too many possible combinations to count them all
        small: Ints = pc.dictionary_encode(pa.array(codes)).indices.to_numpy().astype(np.int64)
        return small
    seen = np.zeros(room, dtype=np.bool_)
    seen[codes] = True
    place: Ints = np.cumsum(seen, dtype=np.int64) - 1
    return place[codes]


def positions(table: pa.Table, attribute: Attribute) -> Ints:
    """The rank of every cell in the attribute's order, equal values alike, missing last.

    Labels keep the order the schema lists them in; other text is ordered as text.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.column(attribute.name).combine_chunks()
    if attribute.labels is None and _many_numbers(column):
        return _sorted_positions(column.to_numpy())
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    values = encoded.dictionary
    rank = np.empty(len(values) + 1, np.int64)
    rank[len(values)] = len(values)
    labels = attribute.labels
    if labels is not None:
        listed = {label: at for at, label in enumerate(labels)}
        place = [listed.get(str(value), len(listed)) for value in values.to_pylist()]
        order = np.argsort(np.asarray(place, np.int64), kind="stable")
    else:
        order = pc.sort_indices(values).to_numpy()
    rank[order] = np.arange(len(values))
    indices = pc.fill_null(encoded.indices.cast(pa.int64()), len(values))
    ranked: Ints = rank[indices.to_numpy(zero_copy_only=False)]
    return ranked


_SAMPLED = 4096


def _many_numbers(column: pa.Array) -> bool:
    """Whether a column is of numbers that mostly differ: sorted sooner than they are counted."""
    import pyarrow as pa

    kind = column.type
    return bool(
        (pa.types.is_integer(kind) or pa.types.is_floating(kind))
        and column.null_count == 0
        and len(column) > _SAMPLED
        and len(column[:_SAMPLED].unique()) > _SAMPLED // 2
    )


def _sorted_positions(cells: npt.NDArray[Any]) -> Ints:
    """The rank of every cell among the different ones."""
    order = np.argsort(cells)
    ordered = cells[order]
    rank = np.empty(len(cells), np.int64)
    rank[order] = np.cumsum(np.concatenate([[False], ordered[1:] != ordered[:-1]]))
    return rank
