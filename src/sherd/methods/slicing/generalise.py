# ruff: noqa: E741 - l is the field's own name for it
"""Generalising: rows into cells, cells into labels, and the book that explains the labels.

Column generalisation makes every value of a column occur at least f times. It runs before
the diversity check, so that what is checked is what is released. The boundaries published
are those of the cells, not of the rows in them: a tight box would tell somebody outside
the table from somebody in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.methods.slicing.group_conditions import Conditions, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.methods.slicing.attribute_codes import Coded
    from sherd.methods.slicing.sensitive_values import Sensitive

NOTHING_MORE = Conditions()
"""No condition beyond k and l."""

Book = dict[str, dict[str, object]]
"""For every label what it stands for."""


@dataclass(frozen=True, kw_only=True)
class BoxPartition:
    """A partition of rows into boxes: the cell of every row and the boxes' codes."""

    names: tuple[str, ...]
    of_row: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    tight: bool = False

    @property
    def count(self) -> int:
        """How many cells there are."""
        return len(self.low)


def into_cells(
    coded: Sequence[Coded],
    *,
    k: int,
    tight: bool,
    order: NDArray[np.int64],
    l: int = 1,
    sensitive: Sensitive | None = None,
    conditions: Conditions = NOTHING_MORE,
) -> BoxPartition:
    """Rows into cells of at least k rows whose sensitive values are diverse, where asked for."""
    from sherd.methods.slicing.boxes import cells, tight_boxes

    n = len(order)
    q = np.zeros(n, dtype=np.int32)
    pairs: list[NDArray[np.int32]] = []
    n_pairs = 1
    values, heads = np.empty((0, 0), dtype=np.int32), np.zeros(1, dtype=np.int64)
    if sensitive is not None:
        pairs, n_pairs = sensitive.pairs(q, 1)
        values, heads = sensitive.elements()
    columns = [*(c.codes for c in coded), q, *pairs]
    rows = np.empty((n, len(columns)), dtype=np.int32)
    for place, column in enumerate(columns):
        rows[:, place] = column[order]
    ids = order.copy()
    sizes = np.array([c.size for c in coded], dtype=np.int32)
    depths = np.concatenate([c.depth for c in coded]).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum([len(c.depth) for c in coded])]).astype(np.int64)
    starts, low, high = cells(
        rows,
        ids,
        len(coded),
        sizes,
        1.0 / np.maximum(sizes - 1, 1),
        depths,
        offsets,
        n_pairs,
        k,
        l,
        tight,
        values,
        heads,
        shares(values, heads),
        conditions.limits(),
    )
    if tight:
        low, high = tight_boxes(rows, len(coded), starts)
    of_row = np.empty(n, dtype=np.int32)
    lengths = np.diff(np.append(starts, n))
    of_row[ids] = np.repeat(np.arange(len(starts), dtype=np.int32), lengths)
    return BoxPartition(
        names=tuple(c.name for c in coded), of_row=of_row, low=low, high=high, tight=tight
    )


def labelled(coded: Coded, cells: BoxPartition, place: int) -> tuple[pa.Array, Book]:
    """One attribute's released labels and their book."""
    ranges = cells.low[:, place].astype(np.int64) << 32 | cells.high[:, place]
    distinct, of_cell = np.unique(ranges, return_inverse=True)
    labels: list[str | None] = []
    book: Book = {}
    for both in distinct.tolist():
        low, high = both >> 32, both & 0xFFFFFFFF
        label = coded.label(low, high, tight=cells.tight)
        labels.append(label)
        if label is not None:
            said = coded.describe(low, high, tight=cells.tight)
            # The root of a taxonomy may stand for a range with and for one without missing.
            missing = said.get("missing") or book.get(label, {}).get("missing")
            book[label] = said | ({"missing": True} if missing else {})
    explained = {k: v for k, v in book.items() if "missing" in v or v.get("values") != [k]}
    codes = pa.array(of_cell[cells.of_row].astype(np.int32))
    released = pa.DictionaryArray.from_arrays(codes, pa.array(labels, pa.string()))
    return released.cast(pa.string()), explained


def described(
    coded: Sequence[Coded], cells: BoxPartition
) -> tuple[dict[str, pa.Array], dict[str, Book]]:
    """The released labels and books of all attributes of a partition."""
    arrays: dict[str, Any] = {}
    books: dict[str, Book] = {}
    for place, one in enumerate(coded):
        arrays[one.name], books[one.name] = labelled(one, cells, place)
    return arrays, books
