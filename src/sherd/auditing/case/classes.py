"""Classes: every attribute cut into a few, the same for original and release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns

MOST_LABELS = 40
"""Labels of one attribute told apart; the rarer ones share a class."""

Coded = dict[str, "NDArray[np.int16]"]


def edges_of(values: NDArray[np.float64], classes: int) -> NDArray[np.float64]:
    """Inner edges of classes of about equal frequency; values that are few stay apart.

    >>> edges_of(np.array([1.0, 1.0, 2.0, 3.0]), 10).tolist()
    [1.5, 2.5]
    """
    present = values[~np.isnan(values)]
    if not present.size:
        return np.empty(0)
    # Unique values of a sample decide whether they are few; all values decide the edges.
    few = np.unique(present if present.size < 100_000 else present[:: present.size // 100_000])
    if len(few) <= classes:
        distinct = np.unique(present)
        if len(distinct) <= classes:
            return (distinct[1:] + distinct[:-1]) / 2
    return np.unique(np.quantile(present, np.arange(1, classes) / classes))


class Classes:
    """Turns columns into class numbers; class 0 is 'missing'."""

    def __init__(self, case: Case, numbers: int = 10) -> None:
        self.edges: dict[str, NDArray[np.float64]] = {}
        self.labels: dict[str, NDArray[np.int16]] = {}
        for name in case.names:
            scale = case.scales[name]
            if scale.labels is None:
                self.edges[name] = edges_of(case.original[name], numbers)
            else:
                self.labels[name] = _label_classes(case.original[name], len(scale.labels))
        self.sizes: Mapping[str, int] = {
            name: (
                len(self.edges[name]) + 2
                if name in self.edges
                else int(self.labels[name].max(initial=0)) + 1
            )
            for name in case.names
        }

    def code(self, columns: Columns) -> Coded:
        """Class numbers of every column."""
        return {name: self._one(name, columns[name]) for name in self.sizes}

    def _one(self, name: str, values: NDArray[np.float64]) -> NDArray[np.int16]:
        missing = np.isnan(values)
        if name in self.edges:
            classes = (np.searchsorted(self.edges[name], values, side="left") + 1).astype(np.int16)
        else:
            table = self.labels[name]
            classes = table[np.where(missing, 0, values).astype(np.int64)]
        if missing.any():
            classes[missing] = 0
        return classes


def _label_classes(values: NDArray[np.float64], labels: int) -> NDArray[np.int16]:
    """A class for each label: its own, or the shared last one for the rarest."""
    if labels <= MOST_LABELS:
        return np.arange(1, labels + 1, dtype=np.int16)
    counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=labels)
    common = np.argsort(-counts, kind="stable")[: MOST_LABELS - 1]
    classes = np.full(labels, MOST_LABELS, np.int16)
    classes[common] = np.arange(1, MOST_LABELS, dtype=np.int16)
    return classes


def histogram(
    coded: Coded, sizes: Mapping[str, int], names: tuple[str, ...]
) -> NDArray[np.float64]:
    """The joint distribution of some attributes, as shares."""
    index = coded[names[0]].astype(np.int32)
    total = sizes[names[0]]
    for name in names[1:]:
        index *= sizes[name]
        index += coded[name]
        total *= sizes[name]
    return np.bincount(index, minlength=total) / len(index)


def total_variation(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Half the sum of absolute differences of two distributions.

    >>> total_variation(np.array([0.5, 0.5]), np.array([0.25, 0.75]))
    0.25
    """
    return float(np.abs(p - q).sum() / 2)
