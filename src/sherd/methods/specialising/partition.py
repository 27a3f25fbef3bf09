"""Partitions: the generalised records a specialisation ends in, with their noisy counts.

Everything here is computed from cuts and noisy counts alone, so it costs no privacy.

A noisy count may be negative, and noise fills leaves that are empty. ``consistent`` turns
counts into whole numbers from 0 that add up to the public number of records: it subtracts the
same amount from all, cuts off at 0 (the least-squares projection onto such counts), and rounds
so that the total stays.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sherd.methods.specialising.specialise import specialise
from sherd.tables.coding import arrow_array, text_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.hierarchy import Hierarchy
    from sherd.methods.specialising.specialise import Oracle, Specialised


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Cuts, the steps that led to them, and a noisy count for each leaf and class.

    ``class_name`` is None where there is no class; then ``counts`` has one column.
    """

    hierarchies: tuple[Hierarchy, ...]
    specialised: Specialised
    class_name: str | None
    class_labels: tuple[str, ...]
    counts: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        hierarchies: tuple[Hierarchy, ...],
        oracle: Oracle,
        *,
        h: int,
        max_leaves: int,
        class_name: str | None,
        class_labels: tuple[str, ...],
        progress: Callable[[str, int, int], None],
    ) -> Partition:
        """Specialise, and count the leaves that are reached."""
        specialised = specialise(hierarchies, oracle, h=h, max_leaves=max_leaves, progress=progress)
        return cls(
            hierarchies=hierarchies,
            specialised=specialised,
            class_name=class_name,
            class_labels=class_labels,
            counts=oracle.count(specialised.cuts, specialised.choices),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """How many intervals the cut of each attribute has."""
        return tuple(len(cut) - 1 for cut in self.specialised.cuts)

    @property
    def leaves(self) -> int:
        """How many leaves there are: every combination of intervals, empty ones included."""
        return math.prod(self.shape)

    def labels(self, attribute: int) -> list[str]:
        """The names of the intervals of an attribute's cut."""
        cut = self.specialised.cuts[attribute]
        one = self.hierarchies[attribute]
        return [one.label(start, stop) for start, stop in itertools.pairwise(cut)]

    def parts(self, attribute: int, leaf: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which interval of an attribute's cut a leaf lies in."""
        after = math.prod(self.shape[attribute + 1 :])
        return leaf // after % self.shape[attribute]

    def weighted(self) -> pa.Table:
        """One row a leaf and class, with the noisy count as it was drawn."""
        cell = np.arange(self.counts.size)
        columns = self._columns(cell)
        name = free_name("count", columns)
        return pa.table({**columns, name: arrow_array(np.ascontiguousarray(self.counts).ravel())})

    def expanded(self, n: int) -> pa.Table:
        """One row a record, n in all: leaves repeated by their consistent counts."""
        times = consistent(self.counts.ravel(), n)
        return pa.table(self._columns(np.repeat(np.arange(times.size), times)))

    def _columns(self, cell: NDArray[np.int64]) -> dict[str, pa.Array]:
        """Attributes and class of cells, a cell being a leaf and a class."""
        n_classes = self.counts.shape[1]
        leaf = cell // n_classes
        columns = {
            one.name: _dictionary(self.parts(a, leaf), self.labels(a))
            for a, one in enumerate(self.hierarchies)
        }
        if self.class_name is not None:
            columns[self.class_name] = _dictionary(cell % n_classes, self.class_labels)
        return columns


def free_name(wanted: str, taken: object) -> str:
    """A column's name that no attribute has.

    >>> free_name("count", {"count": 1})
    'count_'
    """
    assert hasattr(taken, "__contains__")
    while wanted in taken:
        wanted += "_"
    return wanted


def _dictionary(indices: NDArray[np.int64], labels: Sequence[str]) -> pa.Array:
    codes = arrow_array(indices.astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, text_array(labels))


def consistent(counts: NDArray[np.int64], total: int) -> NDArray[np.int64]:
    """The nearest counts from 0 that add up to ``total``, rounded.

    >>> consistent(np.array([10, -3, 2, 1]), 10).tolist()
    [9, 0, 1, 0]
    """
    down = np.sort(counts)[::-1].astype(np.float64)
    excess = (np.cumsum(down) - total) / np.arange(1, down.size + 1)
    # The largest number of leaves that stay above 0 when all lose their share of the excess.
    kept = int(np.flatnonzero(down - excess > 0)[-1]) if total else 0
    exact = np.maximum(counts - excess[kept], 0.0) if total else np.zeros(counts.size)
    whole = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    if left:
        # Largest remainders first; equal ones by place, which is public.
        order = np.argsort(whole - exact, kind="stable")
        np.add.at(whole, order[np.arange(left) % order.size], 1)
    return whole
